#include "textflag.h"

// func productsAVX2(to *int32, weights *byte, x *int16, n, width int)
TEXT ·productsAVX2(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ weights+8(FP), SI
	MOVQ x+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ width+32(FP), R8
	LEAQ (DX)(R8*2), R9
	LEAQ (R9)(R8*2), R10
	LEAQ (R10)(R8*2), R11

row:
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	XORQ  BX, BX

part:
	VPMOVSXBW (SI)(BX*1), Y4      // 16 weights as int16
	VPMADDWD  (DX)(BX*2), Y4, Y5  // 8 sums of two products
	VPADDD    Y5, Y0, Y0
	VPMADDWD  (R9)(BX*2), Y4, Y6
	VPADDD    Y6, Y1, Y1
	VPMADDWD  (R10)(BX*2), Y4, Y7
	VPADDD    Y7, Y2, Y2
	VPMADDWD  (R11)(BX*2), Y4, Y8
	VPADDD    Y8, Y3, Y3
	ADDQ      $16, BX
	CMPQ      BX, R8
	JLT       part

	VPHADDD      Y1, Y0, Y0
	VPHADDD      Y3, Y2, Y2
	VPHADDD      Y2, Y0, Y0 // the four sums of each half
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VMOVDQU      X0, (DI)
	ADDQ         $16, DI
	ADDQ         R8, SI
	DECQ         CX
	JNZ          row

	VZEROUPPER
	RET

// func addFourAVX2(to, rows, by *float32, n, width int)
TEXT ·addFourAVX2(SB), NOSPLIT, $0-40
	MOVQ         to+0(FP), DI
	MOVQ         rows+8(FP), SI
	MOVQ         by+16(FP), DX
	MOVQ         n+24(FP), CX
	MOVQ         width+32(FP), R8
	LEAQ         (SI)(R8*4), R9
	LEAQ         (R9)(R8*4), R10
	LEAQ         (R10)(R8*4), R11
	VBROADCASTSS (DX), Y0
	VBROADCASTSS 4(DX), Y1
	VBROADCASTSS 8(DX), Y2
	VBROADCASTSS 12(DX), Y3
	XORQ         BX, BX

eight:
	VMULPS  (SI)(BX*4), Y0, Y4
	VMULPS  (R9)(BX*4), Y1, Y5
	VMULPS  (R10)(BX*4), Y2, Y6
	VMULPS  (R11)(BX*4), Y3, Y7
	VADDPS  Y5, Y4, Y4
	VADDPS  Y7, Y6, Y6
	VADDPS  Y6, Y4, Y4
	VADDPS  (DI)(BX*4), Y4, Y4
	VMOVUPS Y4, (DI)(BX*4)
	ADDQ    $8, BX
	CMPQ    BX, CX
	JLT     eight

	VZEROUPPER
	RET
