//go:build chaos

package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// poll is how often a hold looks whether it is over.
const poll = 5 * time.Millisecond

var (
	mu     sync.Mutex
	passed = map[string]int{} // by name; all of them by none
)

func file(name string) string { return filepath.Join(Dir, name) }

// At is a step: it is passed on, or is where this process ends or waits.
func At(step string) {
	if _, err := os.Stat(Dir); err != nil {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	passed[""]++
	passed[step]++
	if f, err := os.OpenFile(file("trace"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		fmt.Fprintln(f, step)
		f.Close()
	}
	b, err := os.ReadFile(file("plan"))
	if err != nil {
		return
	}
	plan := strings.SplitN(string(b), " ", 3)
	if len(plan) < 2 {
		return
	}
	action, name := plan[1], strings.Join(plan[2:], "")
	if count, err := strconv.Atoi(plan[0]); err != nil || count != passed[name] || name != "" && name != step {
		return
	}
	if os.Rename(file("plan"), file("planned")) != nil {
		return // another process was faster
	}
	_ = os.WriteFile(file("reached.tmp"), []byte(step), 0o600)
	_ = os.Rename(file("reached.tmp"), file("reached"))
	if action == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	for {
		if _, err := os.Stat(file("release")); err == nil {
			return
		}
		<-time.After(poll)
	}
}
