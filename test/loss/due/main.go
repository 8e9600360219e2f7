// Command due is a container that ends at a moment that is known beforehand: due FILE OFFSET CODE waits until FILE
// exists, which holds a time in nanoseconds since 1970, and ends OFFSET after it with the exit code CODE.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	offset, err := time.ParseDuration(os.Args[2])
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
		base, perr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil || perr != nil {
			continue
		}
		<-time.After(time.Until(time.Unix(0, base).Add(offset)))
		os.Exit(code)
	}
}
