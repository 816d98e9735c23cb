/* The function of bcryptprimitives.dll that Go's runtime needs at its start. Wine 8 lacks this library. */
#include <windows.h>
#include <ntsecapi.h>

BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length)
{
	return RtlGenRandom(data, length);
}
