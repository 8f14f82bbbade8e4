// Does in Go what run.c does in C: runs the program of export.lua on a file of digits.
//
//	CGO_CFLAGS=-I$PWD/src CGO_LDFLAGS="$PWD/build/libtlua.a -lm -ldl -lpthread" go build -o run examples/deploy/run.go
//	./run digits.tlp examples/data/digits.csv
package main

// #include <stdlib.h>
// #include <tlua.h>
import "C"

import (
	"encoding/csv"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"
)

// newTensor returns a tensor and its elements. They are in C's memory, since Go may move its own memory.
func newTensor(sizes ...C.int64_t) (*C.tl_Tensor, []float32) {
	numel := C.int64_t(1)
	for _, size := range sizes {
		numel *= size
	}
	data := C.calloc(C.size_t(numel), 4)
	tensor := C.tl_tensor_wrap(data, C.TL_F32, C.int(len(sizes)), &sizes[0], nil, nil, nil)
	return tensor, unsafe.Slice((*float32)(data), int(numel))
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "run:", message)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: run digits.tlp digits.csv")
		os.Exit(2)
	}
	runtime.LockOSThread() // tl_error gives the message of the calling thread
	file, err := os.Open(os.Args[2])
	if err != nil {
		fail(err.Error())
	}
	rows, err := csv.NewReader(file).ReadAll() // 64 pixels from 0 to 16 and the digit in each
	if err != nil || len(rows) == 0 {
		fail("the file of digits cannot be read")
	}
	n := C.int64_t(len(rows))
	in, images := newTensor(n, 1, 8, 8)
	out, scores := newTensor(n, 10)
	digits := make([]int, len(rows))
	for i, row := range rows {
		for j, field := range row {
			number, _ := strconv.Atoi(field)
			if j < 64 {
				images[64*i+j] = float32(number) / 16
			} else {
				digits[i] = number
			}
		}
	}
	path := C.CString(os.Args[1])
	program := C.tl_program_load(path)
	if program == nil || in == nil || out == nil || !C.tl_program_run(program, &in, 1, &out, 1) {
		fail(C.GoString(C.tl_error()))
	}
	right := 0
	for i, digit := range digits {
		best := 0
		for j := 1; j < 10; j++ {
			if scores[10*i+j] > scores[10*i+best] {
				best = j
			}
		}
		if best == digit {
			right++
		}
	}
	fmt.Printf("%d of %d digits read right\n", right, len(rows))
	C.tl_tensor_release(in)
	C.tl_tensor_release(out)
	C.tl_program_free(program)
	C.free(unsafe.Pointer(&images[0]))
	C.free(unsafe.Pointer(&scores[0]))
	C.free(unsafe.Pointer(path))
}
