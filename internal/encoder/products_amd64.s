#include "textflag.h"

// func productsAVX2(to *int32, rows *byte, x *int16, n, width int)
TEXT ·productsAVX2(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ x+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ width+32(FP), R8

row:
	VPXOR Y0, Y0, Y0
	XORQ  BX, BX

part:
	VPMOVSXBW (SI)(BX*1), Y1     // 16 weights as int16
	VPMADDWD  (DX)(BX*2), Y1, Y1 // 8 sums of two products
	VPADDD    Y1, Y0, Y0
	ADDQ      $16, BX
	CMPQ      BX, R8
	JLT       part

	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x4E, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xB1, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, (DI)
	ADDQ         $4, DI
	ADDQ         R8, SI
	DECQ         CX
	JNZ          row

	VZEROUPPER
	RET
