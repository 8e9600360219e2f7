package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// tally is what was played so far. In the file that CHAOS_STATE names it outlives an interruption.
type tally struct {
	Seed      uint64           `json:"seed"`
	Mutant    string           `json:"mutant"`
	Histories int              `json:"histories"`
	Faults    map[string]int   `json:"faults"`
	Wrong     map[int][]string `json:"wrong"` // by history
}

const (
	chunk = 100 // histories between two writes of the tally
	many  = 20  // wrong histories, after which it ends
	none  = -1  // the history that what is wrong at the end belongs to
)

// number reads a setting of the environment.
func number(name string, or uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return or
}

// TestHistories plays CHAOS_SIMULATED random histories, or some for a few seconds. CHAOS_SEED gives others, and
// CHAOS_HISTORY only the one of that number.
func TestHistories(t *testing.T) {
	file := os.Getenv("CHAOS_STATE")
	all := tally{Seed: number("CHAOS_SEED", 1130), Mutant: os.Getenv("CHAOS_MUTANT"), Faults: map[string]int{}, Wrong: map[int][]string{}}
	t.Logf("CHAOS_SEED=%d", all.Seed)
	resume(t, file, &all)
	goal, budget := int(number("CHAOS_SIMULATED", 1<<30)), time.Duration(0)
	if goal == 1<<30 {
		budget = 15 * time.Second
	}
	if only, err := strconv.ParseUint(os.Getenv("CHAOS_HISTORY"), 10, 64); err == nil {
		all.Histories, goal = int(only), int(only)+1
	} else {
		log.L.Logger.SetLevel(logrus.FatalLevel)
	}
	began, fds := time.Now(), descriptors(t)
	workers := []*disks{newDisks(t), newDisks(t), newDisks(t), newDisks(t)} // mounting waits more than it works
	step, enough := chunk, many
	if budget > 0 || all.Mutant != "" {
		step, enough = len(workers), 1
	}
	delete(all.Wrong, none)
	playMany(t, workers, &all, slices.Sorted(maps.Keys(all.Wrong)))
	for all.Histories < goal && (budget == 0 || time.Since(began) < budget) && len(all.Wrong) < enough {
		var numbers []int
		for len(numbers) < step && all.Histories < goal {
			numbers, all.Histories = append(numbers, all.Histories), all.Histories+1
		}
		playMany(t, workers, &all, numbers)
		save(t, file, all)
	}
	if now := descriptors(t); now > fds+2 {
		all.Wrong[none] = []string{fmt.Sprintf("%d file descriptors are open, %d were", now, fds)}
	}
	save(t, file, all)
	t.Logf("%d histories in %v, faults %v", all.Histories, time.Since(began).Round(time.Second), all.Faults)
	for _, wrong := range all.Wrong {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// playMany plays histories, side by side. Those that were wrong are played for the second time.
func playMany(t *testing.T, workers []*disks, all *tally, numbers []int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, d := range workers {
		group.Go(func() {
			for {
				mu.Lock()
				if len(numbers) == 0 {
					mu.Unlock()
					return
				}
				at := numbers[0]
				numbers = numbers[1:]
				mu.Unlock()
				faults := map[string]int{}
				wrong := play(t, d, all.Seed, uint64(at), time.Now(), faults)
				mu.Lock()
				if _, before := all.Wrong[at]; !before {
					for name, n := range faults {
						all.Faults[name] += n
					}
				}
				delete(all.Wrong, at)
				for _, w := range wrong {
					all.Wrong[at] = append(all.Wrong[at], fmt.Sprintf("simulated history %d of seed %d: %s", at, all.Seed, w))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

func descriptors(t *testing.T) int {
	t.Helper()
	des, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(des)
}

// resume goes on with a tally of the same seed and mutant.
func resume(t *testing.T, file string, all *tally) {
	t.Helper()
	b, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	var old tally
	if err = errors.Join(err, json.Unmarshal(b, &old)); err != nil {
		t.Fatal(err)
	}
	if old.Seed == all.Seed && old.Mutant == all.Mutant && old.Wrong != nil {
		*all = old
		t.Logf("going on after %d histories", old.Histories)
	}
}

func save(t *testing.T, file string, all tally) {
	t.Helper()
	if file == "" {
		return
	}
	b, err := json.Marshal(all)
	err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".tmp", b, 0o644), os.Rename(file+".tmp", file))
	if err != nil {
		t.Fatal(err)
	}
}
