// Command due is a container that ends at a moment that is known beforehand: due FILE PART CODE waits until FILE exists,
// which holds a beginning and a length of time in nanoseconds, the first since 1970, and ends with the exit code CODE
// when that PART of the time, 0 to 1, has passed.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	part, err := strconv.ParseFloat(os.Args[2], 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(100)
	}
	code, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(100)
	}
	for range time.Tick(20 * time.Millisecond) {
		b, err := os.ReadFile(os.Args[1])
		var base, span int64
		if n, serr := fmt.Sscanf(string(b), "%d %d.", &base, &span); err != nil || serr != nil || n != 2 {
			continue
		}
		<-time.After(time.Until(time.Unix(0, base+int64(part*float64(span)))))
		os.Exit(code)
	}
}
