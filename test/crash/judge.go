package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/stage"
	"quiesce/test/node"
)

// results reads the results by entry.
func (b *Bench) results() (map[string]stage.Result, error) {
	rs, err := stage.Results(b.Path(stageDir + "/results"))
	if err != nil {
		return nil, err
	}
	by := map[string]stage.Result{}
	for _, r := range rs {
		by[r.ID] = r
	}
	return by, nil
}

// judge lists what is wrong with the node after a case with these entries.
func (b *Bench) judge(ctx context.Context, o *Outcome, entries []stage.Entry) {
	wrong := func(format string, args ...any) { o.Wrong = append(o.Wrong, fmt.Sprintf(format, args...)) }
	current, err := b.settled(o, entries)
	if err != nil {
		wrong("%v", err)
		return
	}
	live := stage.Live(current)
	var names []string
	for name := range live {
		names = append(names, name)
	}
	slices.Sort(names)
	if err := b.onDisk(ctx, names, live); err != nil {
		wrong("%v", err)
	}
	if err := b.loaded(ctx, names); err != nil {
		wrong("%v", err)
	}
	if left := b.leftovers(); len(left) > 0 {
		wrong("left over: %s", strings.Join(left, " "))
	}
	if frozen, err := b.frozen(ctx); err != nil || frozen != "" {
		wrong("frozen: %s %v", frozen, err)
	}
	handlers := []string{""}
	if len(names) > 0 && len(o.Wrong) == 0 {
		handlers = append(handlers, names[len(names)-1])
	}
	for _, h := range handlers {
		if err := b.runs(ctx, h); err != nil {
			wrong("%v", err)
		}
	}
	if err := b.workerLives(ctx); err != nil {
		wrong("%v", err)
		b.worker = nil
	}
}

// settled compares rooms and results.
func (b *Bench) settled(o *Outcome, entries []stage.Entry) ([]stage.Entry, error) {
	s, err := b.store()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	current, cerr := s.Current()
	rejected, rerr := s.Rejected()
	pending, perr := s.Pending()
	j, jerr := s.Journal()
	now, err := b.results()
	if err := errors.Join(cerr, rerr, perr, jerr, err); err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) { o.Wrong = append(o.Wrong, fmt.Sprintf(format, args...)) }
	if len(pending) > 0 || j != nil {
		wrong("not settled: %d entries, journal %+v", len(pending), j)
	}
	in := func(es []stage.Entry, id string) bool {
		return slices.ContainsFunc(es, func(e stage.Entry) bool { return e.ID == id })
	}
	count := map[stage.Phase]int{}
	for _, e := range entries {
		phase := stage.Phase("nowhere")
		switch {
		case in(current, e.ID) && !in(rejected, e.ID):
			phase = e.Phase()
		case in(rejected, e.ID) && !in(current, e.ID):
			phase = stage.Rejected
			o.Reasons = append(o.Reasons, now[e.ID].Reason)
		}
		count[phase]++
		if now[e.ID].Phase != phase {
			wrong("entry %s is %s, its result says %q", e.ID, phase, now[e.ID].Phase)
		}
		if old := o.was[e.ID].Phase; old.Final() && old != phase {
			wrong("entry %s was %s before, and is %s", e.ID, old, phase)
		}
	}
	switch {
	case count[stage.IsLive] == len(entries) || count[stage.Removed] == len(entries):
		o.Ended = "new"
	case count[stage.Rejected] == len(entries):
		o.Ended = "old"
	default:
		o.Ended = fmt.Sprint(count)
	}
	return current, nil
}

var typeLine = regexp.MustCompile(`(?m)^\s*runtime_type = ['"]([^'"]+)['"]`)

// onDisk compares containerd's configuration and the shims with what is live.
func (b *Bench) onDisk(ctx context.Context, names []string, live map[string]stage.Entry) error {
	files, err := filepath.Glob(b.Path(confDir) + "/conf.d/*.toml")
	if err != nil {
		return err
	}
	var have []string
	for _, f := range files {
		have = append(have, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "quiesce-"), ".toml"))
	}
	if !slices.Equal(have, names) {
		return fmt.Errorf("a mixture: live are %v, on disk are %v", names, have)
	}
	root, err := b.ReadFile(confDir + "/config.toml")
	if err != nil {
		return err
	}
	if plain := regexp.MustCompile(`(?m)^imports = .*added by quiesce\n`).ReplaceAllString(string(root), ""); plain != b.original || plain == string(root) {
		return fmt.Errorf("a mixture: config.toml is %q", root)
	}
	keep := map[string]bool{}
	for i, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		e := live[names[i]]
		m := typeLine.FindSubmatch(text)
		if m == nil {
			return fmt.Errorf("%s has no runtime_type: %q", filepath.Base(f), text)
		}
		for _, p := range e.Files {
			keep[e.Version()] = true
			shim, err := os.ReadFile(b.Path(string(m[1])))
			if sum := sha256.Sum256(shim); err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
				return fmt.Errorf("the shim of %s is not whole: %d bytes, %v", names[i], len(shim), err) //nolint:errorlint // it may be none
			}
		}
	}
	return b.onlyShims(ctx, keep)
}

// swept is how long the daemon takes at most to have a shim removed that could not be when it should have been: it rests for
// half a minute, and tries each half minute.
const swept = 90 * time.Second

func (b *Bench) onlyShims(ctx context.Context, keep map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, swept)
	defer cancel()
	var left []string
	err := b.Until(ctx, "no shim is left over", func(context.Context) (bool, error) {
		des, err := os.ReadDir(b.Path(optDir + "/shims"))
		left = nil
		for _, de := range des {
			if !keep[de.Name()] {
				left = append(left, de.Name())
			}
		}
		return len(left) == 0, err
	})
	if len(left) > 0 {
		return fmt.Errorf("shims of nobody: %s", strings.Join(left, " "))
	}
	return err
}

// loaded compares what containerd has with what is live.
func (b *Bench) loaded(ctx context.Context, names []string) error {
	cri, err := b.CRI(ctx)
	if err != nil {
		return err
	}
	st, err := cri.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("ask CRI: %w", err)
	}
	var have []string
	for _, h := range st.GetRuntimeHandlers() {
		if n := h.GetName(); n != "" && n != "runc" {
			have = append(have, n)
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, names) {
		return fmt.Errorf("a mixture: live are %v, containerd has %v", names, have)
	}
	return nil
}

// leftovers lists files that nobody goes on writing. The daemon writes to two of the directories at any time.
func (b *Bench) leftovers() (left []string) {
	for _, dir := range disks {
		top := b.Path(dir)
		_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it went meanwhile
			}
			in := strings.TrimPrefix(filepath.Dir(p), b.Path(stageDir))
			half := strings.HasPrefix(d.Name(), ".quiesce-") && in != "/store" && in != "/results"
			if half || strings.HasSuffix(in, "/act") || strings.HasSuffix(in, "/new") || d.Name() == "freeze.json" {
				left = append(left, dir+strings.TrimPrefix(p, top))
			}
			return nil
		})
	}
	return left
}

// frozen lists frozen cgroups.
func (b *Bench) frozen(ctx context.Context) (string, error) {
	return b.Exec(ctx, "sh", "-c", `find /sys/fs/cgroup -name freezer.state -exec grep -lE 'FROZEN|FREEZING' {} +; find /sys/fs/cgroup -name cgroup.freeze -exec grep -l 1 {} +; true`)
}

// runs runs a pod to its end.
func (b *Bench) runs(ctx context.Context, handler string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it does not run")) // the machine may be busy
	defer cancel()
	b.pods++
	p, err := b.RunPod(ctx, node.Pod{Name: fmt.Sprintf("pod-%d", b.pods), Handler: handler, Containers: []node.Container{node.Shell("exit 3")}})
	if err != nil {
		return fmt.Errorf("a pod with handler %q: %w", handler, err)
	}
	st, err := p.Status(ctx, "main")
	if err != nil {
		return err
	}
	if code := st.GetExitCode(); code != 3 {
		return fmt.Errorf("a pod with handler %q ended with %d, not 3", handler, code)
	}
	return p.Remove(ctx)
}

// workerLives checks the pod that ran all the time.
func (b *Bench) workerLives(ctx context.Context) error {
	if b.worker == nil {
		return nil
	}
	st, err := b.worker.Status(ctx, "main")
	if err != nil {
		return err
	}
	if s := st.GetState(); s != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return fmt.Errorf("the pod that ran all the time is %v", s)
	}
	return nil
}
