// Command demo tells the main job on throwaway real nodes: what an installer that restarts containerd does to itself,
// and the same with quiesce. It ends with a short story, out/demo.json and out/evidence/demo/.
//
// DEMO_HOLD (seconds, default 10): how much longer than the others the last installer runs.
// DEMO_EXIT (default 3): the code with which a pod of each new handler ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"quiesce/test/node"
	"quiesce/test/story"
)

func main() { story.Main("demo", play) }

// report is out/demo.json.
type report struct {
	Versions map[string]string `json:"versions"`
	Naive    ended             `json:"naive"`
	Quiesce  told              `json:"quiesce"`
}

type ended struct {
	ExitCode int32  `json:"exit_code"`
	Reason   string `json:"reason"`
}

type told struct {
	Installers        []installer `json:"installers"`
	LastInstallerGone time.Time   `json:"last_installer_gone_at"`
	RestartBegan      time.Time   `json:"restart_began_at"`
	Restarts          int         `json:"restarts"`
	UnansweredMS      int64       `json:"unanswered_ms"`
	Handlers          []handler   `json:"handlers"`
	UnknownExits      int         `json:"unknown_exits"`
}

type installer struct {
	Pod        string    `json:"pod"`
	ExitCode   int32     `json:"exit_code"`
	Reason     string    `json:"reason"`
	FinishedAt time.Time `json:"finished_at"`
}

type handler struct {
	Name        string `json:"name"`
	PodExitCode int32  `json:"pod_exit_code"`
}

func play(ctx context.Context, out story.Out) error {
	hold, err := number("DEMO_HOLD", 10, 0, 600)
	if err != nil {
		return err
	}
	code, err := number("DEMO_EXIT", 3, 0, 255)
	if err != nil {
		return err
	}
	fmt.Println("Preparing the node (the first time it takes some minutes: tools are built and Debian is fetched) …")
	if _, err := node.Prepare(ctx); err != nil {
		return err
	}
	var r report
	fmt.Println("\n1. An installer as reported: it restarts containerd itself.")
	if r.Naive, err = naive(ctx, out.Evidence()); err != nil {
		return fmt.Errorf("naive installer: %w", err)
	}
	fmt.Println("\n2. Three installers at once, with quiesce.")
	if r.Quiesce, r.Versions, err = withQuiesce(ctx, out.Evidence(), hold, code); err != nil {
		return fmt.Errorf("with quiesce: %w", err)
	}
	return errors.Join(out.Figures(r), tell(r, int32(code)))
}

func number(name string, def, low, high int) (int, error) {
	s := os.Getenv(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s is %q: it must be a number from %d to %d", name, s, low, high)
	}
	return n, nil
}

// tell prints the story; it is an error if quiesce did not keep its promise.
func tell(r report, code int32) error {
	q := r.Quiesce
	fmt.Printf("\nWhat happened\n")
	fmt.Printf("  Without quiesce: the installer ended with exit code %d, reason %s.\n", r.Naive.ExitCode, r.Naive.Reason)
	fmt.Printf("  With quiesce:\n")
	for _, i := range q.Installers {
		fmt.Printf("    %-22s ended with exit code %d, %s, at %s\n", i.Pod, i.ExitCode, i.Reason, i.FinishedAt.Local().Format("15:04:05.0"))
	}
	fmt.Printf("    the last installer was gone at %s\n", q.LastInstallerGone.Local().Format("15:04:05.0"))
	fmt.Printf("    containerd was restarted %d time(s), %.1f s later; CRI did not answer for %d ms\n",
		q.Restarts, q.RestartBegan.Sub(q.LastInstallerGone).Seconds(), q.UnansweredMS)
	for _, h := range q.Handlers {
		fmt.Printf("    a pod of handler %-13s ran, and ended with exit code %d\n", h.Name, h.PodExitCode)
	}
	fmt.Printf("    containers with an unknown exit code: %d\n", q.UnknownExits)
	fmt.Printf("\n  The figures are in out/demo.json, what they come from in out/evidence/demo/.\n")
	return promise(q, code)
}

func promise(q told, code int32) error {
	var errs error
	fail := func(ok bool, format string, a ...any) {
		if !ok {
			errs = errors.Join(errs, fmt.Errorf(format, a...))
		}
	}
	for _, i := range q.Installers {
		fail(i.ExitCode == 0 && i.Reason == "Completed", "installer %s ended %d %s", i.Pod, i.ExitCode, i.Reason)
	}
	for _, h := range q.Handlers {
		fail(h.PodExitCode == code, "the pod of %s ended %d, not %d", h.Name, h.PodExitCode, code)
	}
	fail(q.Restarts == 1, "containerd was restarted %d times", q.Restarts)
	fail(q.RestartBegan.After(q.LastInstallerGone), "containerd was restarted before the last installer was gone")
	fail(q.UnknownExits == 0, "%d exit codes are unknown", q.UnknownExits)
	return errs
}
