package stage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the head of a real program of this machine, without sections and segments.
func program(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	check(t, err)
	defer f.Close()
	head := make([]byte, 64)
	_, err = io.ReadFull(f, head)
	check(t, err)
	for _, field := range [][2]int{{32, 48}, {56, 58}, {60, 64}} { // e_phoff and e_shoff, e_phnum, e_shnum and e_shstrndx (elf(5))
		clear(head[field[0]:field[1]])
	}
	return head
}

type fixture struct {
	dir   string
	inbox *Inbox
	store *Store
}

func open(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir()}
	if err := Create(f.dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.inbox, err = OpenInbox(filepath.Join(f.dir, "inbox")); err != nil {
		t.Fatal(err)
	}
	if f.store, err = Open(f.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(f.inbox.Close(), f.store.Close()) })
	return f
}

func install(id string, handlers ...string) Manifest {
	m := Manifest{Schema: Schema, ID: id, Op: Install, Created: time.Now().UTC()}
	for _, h := range handlers {
		m.Handlers = append(m.Handlers, Handler{Name: h, Shim: "containerd-shim-x-v1"})
	}
	m.Files = []File{{Name: "containerd-shim-x-v1", Mode: 0o755}}
	return m
}

func remove(id string, handlers ...string) Manifest {
	m := Manifest{Schema: Schema, ID: id, Op: Remove, Created: time.Now().UTC()}
	for _, h := range handlers {
		m.Handlers = append(m.Handlers, Handler{Name: h})
	}
	return m
}

func from(b []byte) Source {
	return func(int) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

func (f *fixture) stage(t *testing.T, m Manifest, payload []byte) {
	t.Helper()
	if _, err := f.inbox.Stage(context.Background(), m, from(payload), nil); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) takeAll(t *testing.T) []error {
	t.Helper()
	staged, err := f.store.Staged()
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, e := range staged {
		_, err := f.store.Take(context.Background(), e)
		errs = append(errs, err)
	}
	return errs
}

func names(t *testing.T, list func() ([]Entry, error)) (ids []string) {
	t.Helper()
	es, err := list()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestAnEntryGoesThroughTheRooms(t *testing.T) {
	f := open(t)
	f.stage(t, install("a", "spin"), program(t))
	if got := names(t, f.store.Staged); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("staged %v", got)
	}
	if errs := f.takeAll(t); errs[0] != nil {
		t.Fatal(errs[0])
	}
	acting, err := f.store.Acting()
	if err != nil || len(acting) != 1 || len(names(t, f.store.Staged)) != 0 {
		t.Fatalf("acting %v, %v", acting, err)
	}
	src, err := f.store.Payload("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(src)
	src.Close()
	if err != nil || !bytes.Equal(got, program(t)) {
		t.Fatalf("the payload is another: %v", err)
	}
	if err := f.store.Settle(acting[0]); err != nil {
		t.Fatal(err)
	}
	if live := Live(must(f.store.Current())); live["spin"].ID != "a" {
		t.Errorf("live is %v", live)
	}
	f.stage(t, remove("b", "spin"), nil)
	f.takeAll(t)
	if err := f.store.Settle(must(f.store.Acting())[0]); err != nil {
		t.Fatal(err)
	}
	if got := names(t, f.store.Current); !slices.Equal(got, []string{"b"}) || len(Live(must(f.store.Current()))) != 0 {
		t.Errorf("current is %v, want the removal only", got)
	}
}

func must(es []Entry, err error) []Entry {
	if err != nil {
		panic(err)
	}
	return es
}

func TestTheEntryTakenLastCountsWhateverTheClockSays(t *testing.T) {
	f := open(t)
	f.stage(t, install("later", "spin"), program(t))
	f.takeAll(t)
	m := remove("earlier", "spin")
	m.Created = time.Now().Add(-time.Hour)
	f.stage(t, m, nil)
	f.takeAll(t)
	if last := Last(must(f.store.Acting())); last["spin"].ID != "earlier" {
		t.Errorf("%s counts, want the one that was taken last", last["spin"].ID)
	}
	if got := Outdated(must(f.store.Acting())); len(got) != 1 || got[0].ID != "later" {
		t.Errorf("outdated %v", got)
	}
}

func TestTakeRefusesWhatIsNotAsDeclared(t *testing.T) {
	file := func(f *fixture) string { return filepath.Join(f.dir, "inbox/new/a/files/0") }
	for name, tc := range map[string]struct {
		harm func(*testing.T, *fixture)
		want string
	}{
		"another content": {func(t *testing.T, f *fixture) {
			b := program(t)
			b[7]++
			check(t, os.WriteFile(file(f), b, 0o600))
		}, "sha256"},
		"another size": {func(t *testing.T, f *fixture) { check(t, os.WriteFile(file(f), []byte("x"), 0o600)) }, "bytes"},
		"a symbolic link": {func(t *testing.T, f *fixture) {
			check(t, errors.Join(os.Remove(file(f)), os.Symlink("/proc/self/exe", file(f))))
		}, "symbolic link"},
		"a hard link": {func(t *testing.T, f *fixture) { check(t, os.Link(file(f), filepath.Join(f.dir, "other"))) }, "hard links"},
		"a FIFO": {func(t *testing.T, f *fixture) {
			check(t, errors.Join(os.Remove(file(f)), syscall.Mkfifo(file(f), 0o600)))
		}, "FIFO"},
		"a missing file": {func(t *testing.T, f *fixture) { check(t, os.Remove(file(f))) }, "no such file"},
		"a manifest of another schema": {func(t *testing.T, f *fixture) {
			check(t, os.WriteFile(filepath.Join(f.dir, "inbox/new/a/manifest.json"), []byte(`{"schema":99,"new":1}`), 0o600))
		}, "schema 99"},
		"a truncated manifest": {func(t *testing.T, f *fixture) {
			check(t, os.WriteFile(filepath.Join(f.dir, "inbox/new/a/manifest.json"), []byte(`{"schema":`), 0o600))
		}, "manifest.json"},
		"a huge manifest": {func(t *testing.T, f *fixture) {
			check(t, os.WriteFile(filepath.Join(f.dir, "inbox/new/a/manifest.json"), make([]byte, MaxManifest+1), 0o600))
		}, "more than"},
		"the manifest of another entry": {func(t *testing.T, f *fixture) {
			check(t, os.Rename(filepath.Join(f.dir, "inbox/new/a"), filepath.Join(f.dir, "inbox/new/b")))
		}, "not the name of its directory"},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.stage(t, install("a", "spin"), program(t))
			tc.harm(t, f)
			err := f.takeAll(t)[0]
			var rejected *RejectedError
			if !errors.As(err, &rejected) || !strings.Contains(rejected.Reason, tc.want) {
				t.Fatalf("got %v, want a rejection that says %q", err, tc.want)
			}
			if len(names(t, f.store.Acting)) != 0 || len(names(t, f.store.Staged)) != 0 || len(names(t, f.store.Rejected)) != 1 {
				t.Error("the entry is not in bad alone")
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProgramsMustRunHere(t *testing.T) {
	other := program(t)
	other[18], other[19] = 0xf3, 0 // e_machine: RISC-V
	if other[18] == program(t)[18] {
		other[18] = 62
	}
	for name, tc := range map[string]struct {
		payload []byte
		want    string
	}{
		"a script":             {[]byte("#!/bin/sh\nexec true\n"), "not an ELF"},
		"text":                 {[]byte("hello"), "not an ELF"},
		"another architecture": {other, "is built for"},
	} {
		f := open(t)
		f.stage(t, install("a", "spin"), tc.payload)
		if err := f.takeAll(t)[0]; err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	good := install("a", "spin")
	good.Files[0].Size, good.Files[0].SHA256 = 1, strings.Repeat("a", 64)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"a quote":            {func(m *Manifest) { m.Handlers[0].Name = `sp"in` }, "handlers.name"},
		"a newline":          {func(m *Manifest) { m.Handlers[0].Name = "spin\n" }, "handlers.name"},
		"a slash":            {func(m *Manifest) { m.Handlers[0].Name = "../spin" }, "handlers.name"},
		"a megabyte":         {func(m *Manifest) { m.Handlers[0].Name = strings.Repeat("a", 1<<20) }, "handlers.name"},
		"no handler":         {func(m *Manifest) { m.Handlers = nil }, "no handler"},
		"twice":              {func(m *Manifest) { m.Handlers = append(m.Handlers, m.Handlers[0]) }, "twice"},
		"an op":              {func(m *Manifest) { m.Op = "replace" }, "op"},
		"an id":              {func(m *Manifest) { m.ID = "../a" }, "id"},
		"a path as a file":   {func(m *Manifest) { m.Files[0].Name = "../../etc/passwd" }, "files.name"},
		"setuid":             {func(m *Manifest) { m.Files[0].Mode = 0o4755 }, "files.mode"},
		"no digest":          {func(m *Manifest) { m.Files[0].SHA256 = "" }, "sha256"},
		"no shim":            {func(m *Manifest) { m.Handlers[0].Shim = "other" }, "handlers.shim"},
		"neither":            {func(m *Manifest) { m.Handlers[0].Shim = "" }, "needs either"},
		"both":               {func(m *Manifest) { m.Handlers[0].RuntimeType = "io.containerd.x.v1" }, "needs either"},
		"runtime_path":       {func(m *Manifest) { m.Handlers[0].Settings = map[string]any{"runtime_path": "/x"} }, "runtime_path"},
		"a float":            {func(m *Manifest) { m.Handlers[0].Options = map[string]any{"x": 1.5} }, "kind"},
		"a removal's files":  {func(m *Manifest) { m.Op, m.Handlers = Remove, []Handler{{Name: "x"}} }, "removal"},
		"an option's key":    {func(m *Manifest) { m.Handlers[0].Options = map[string]any{"a.b": "x"} }, "handlers.options"},
		"an unknown schema":  {func(m *Manifest) { m.Schema = 2 }, "schema 2"},
		"a list of anything": {func(m *Manifest) { m.Handlers[0].Options = map[string]any{"x": []any{true}} }, "strings only"},
	} {
		m := good
		m.Handlers, m.Files = slices.Clone(good.Handlers), slices.Clone(good.Files)
		tc.change(&m)
		err := m.Validate()
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 400 {
			t.Errorf("%s: got %.300v, want %q", name, err, tc.want)
		}
	}
	for _, long := range []string{`{"%s":1}`, `{"id":%s}`, `{"schema":1,"id":"%s"}`} {
		text := strings.Replace(long, "%s", strings.Repeat("1", 9000), 1)
		if _, err := ParseManifest([]byte(text)); err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: %v", long, err)
		}
	}
	if _, err := ParseManifest([]byte(`{"schema":1,"dest":"/etc"}`)); err == nil || !strings.Contains(err.Error(), "dest") {
		t.Errorf("an unknown field: got %v", err)
	}
}

func TestStageIsAllOrNothing(t *testing.T) {
	f := open(t)
	m := install("a", "spin")
	m.Files[0].SHA256 = strings.Repeat("0", 64)
	if _, err := f.inbox.Stage(context.Background(), m, from(program(t)), nil); err == nil {
		t.Error("a wrong digest was accepted")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.inbox.Stage(ctx, install("b", "spin"), from(program(t)), nil); err == nil {
		t.Error("a cancelled stage succeeded")
	}
	for _, room := range []string{"inbox/tmp", "inbox/new"} {
		if des, err := os.ReadDir(filepath.Join(f.dir, room)); err != nil || len(des) != 0 {
			t.Errorf("%s has %v, %v", room, des, err)
		}
	}
}

func TestRollbackGivesTheOldBytesBack(t *testing.T) {
	f := open(t)
	host := t.TempDir()
	path := func(n string) string { return filepath.Join(host, n) }
	check(t, os.WriteFile(path("changed"), []byte("old"), 0o640))
	check(t, os.WriteFile(path("removed"), []byte("old too"), 0o600))
	changes := []Change{
		{Path: path("changed"), Old: []byte("old"), New: []byte("new"), Attr: Attr{Mode: 0o640, UID: os.Getuid(), GID: os.Getgid()}},
		{Path: path("removed"), Old: []byte("old too"), Attr: Attr{Mode: 0o600, UID: os.Getuid(), GID: os.Getgid()}},
		{Path: path("sub/made"), New: []byte("new"), Attr: Attr{Mode: 0o644, UID: os.Getuid(), GID: os.Getgid()}},
	}
	for written := range len(changes) + 1 { // whatever of it was done when the crash came
		j := &Journal{Began: time.Now()}
		check(t, f.store.OpenJournal(j, changes))
		check(t, f.store.Write(changes[:written]))
		j, err := f.store.Journal()
		check(t, err)
		conflicts, err := f.store.Rollback(j)
		if err != nil || len(conflicts) != 0 {
			t.Fatal(err, conflicts)
		}
		check(t, f.store.End())
		for name, want := range map[string]string{"changed": "old", "removed": "old too"} {
			if got, err := os.ReadFile(path(name)); err != nil || string(got) != want {
				t.Errorf("after %d writes %s is %q, %v", written, name, got, err)
			}
		}
		if fi, err := os.Stat(path("changed")); err != nil || fi.Mode() != 0o640 {
			t.Errorf("mode is %v", fi.Mode())
		}
		if _, err := os.Stat(path("sub/made")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that was made is still there: %v", err)
		}
	}
}

func TestRollbackKeepsWhatOthersWrote(t *testing.T) {
	f := open(t)
	file := filepath.Join(t.TempDir(), "config")
	check(t, os.WriteFile(file, []byte("old"), 0o600))
	change := Change{Path: file, Old: []byte("old"), New: []byte("new"), Attr: Attr{Mode: 0o600}}
	j := &Journal{Began: time.Now()}
	check(t, f.store.OpenJournal(j, []Change{change}))
	check(t, f.store.Write([]Change{change}))
	check(t, os.WriteFile(file, []byte("theirs"), 0o600))
	conflicts, err := f.store.Rollback(j)
	if err != nil || len(conflicts) != 1 {
		t.Fatal(err, conflicts)
	}
	kept, err := filepath.Glob(filepath.Join(f.dir, "store/kept/*"))
	if err != nil || len(kept) != 1 {
		t.Fatal(err, kept)
	}
	if b, err := os.ReadFile(kept[0]); err != nil || string(b) != "theirs" {
		t.Errorf("kept %q, %v", b, err)
	}
	if err := f.store.Write([]Change{{Path: file, Old: []byte("other"), New: []byte("x")}}); err == nil {
		t.Error("a change was made to a file that is not as it was")
	}
}

func TestOneApplyAtATime(t *testing.T) {
	f := open(t)
	if f.store.Locked() {
		t.Error("locked before")
	}
	unlock, err := f.store.Lock()
	check(t, err)
	if !f.store.Locked() {
		t.Error("not locked")
	}
	if _, err := f.store.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	check(t, unlock())
	if f.store.Locked() {
		t.Error("locked after")
	}
}

func TestHoldOutlivesTheStore(t *testing.T) {
	f := open(t)
	check(t, f.store.SetHold("me: testing"))
	again, err := Open(f.dir)
	check(t, err)
	defer again.Close()
	if h := again.Hold(); h.Who != "me: testing" {
		t.Errorf("hold is %+v", h)
	}
	check(t, os.WriteFile(filepath.Join(f.dir, "store/hold.json"), []byte("{"), 0o600))
	if h := again.Hold(); h.Who == "" {
		t.Error("a hold that cannot be read does not hold")
	}
	check(t, again.SetHold(""))
	if h := f.store.Hold(); h.Who != "" {
		t.Errorf("released: %+v", h)
	}
}

func TestHintHasNoHandlerThatIsPending(t *testing.T) {
	f := open(t)
	for _, m := range []Manifest{install("a", "spin"), install("b", "wasm")} {
		f.stage(t, m, program(t))
	}
	f.takeAll(t)
	for _, e := range must(f.store.Acting()) {
		check(t, f.store.Settle(e))
	}
	f.stage(t, remove("r", "spin"), nil)
	check(t, f.store.PublishLive(must(f.store.Pending())))
	live := f.inbox.Live()
	if len(live) != 1 || live[0].ID != "b" {
		t.Errorf("the hint is %v", live)
	}
}

func TestResults(t *testing.T) {
	f := open(t)
	e := Entry{Manifest: install("a", "spin")}
	check(t, f.store.Publish(NewResult(e, IsLive, "")))
	check(t, f.store.Publish(NewResult(e, Pending, "late")))
	rs, err := Results(filepath.Join(f.dir, "results"))
	if err != nil || len(rs) != 1 || rs[0].Phase != IsLive {
		t.Errorf("%+v, %v: want live, a final phase stays", rs, err)
	}
	for i := range keepResults + 5 {
		e.ID = "x" + strings.Repeat("i", i%100) + strings.Repeat("j", i/100)
		check(t, f.store.Publish(NewResult(e, Rejected, "")))
	}
	check(t, f.store.PruneResults())
	if rs, err := Results(filepath.Join(f.dir, "results")); err != nil || len(rs) != keepResults {
		t.Errorf("%d results are kept, %v", len(rs), err)
	}
}

func TestRestartsAreCounted(t *testing.T) {
	f := open(t)
	check(t, f.store.PublishRestart(Restart{}))
	check(t, f.store.PublishRestart(Restart{Failed: "x"}))
	if r := f.store.LastRestart(); r.Done != 1 || r.Broken != 1 {
		t.Errorf("%+v", r)
	}
}

func TestSweep(t *testing.T) {
	f := open(t)
	check(t, os.Mkdir(filepath.Join(f.dir, "inbox/tmp/young"), 0o700))
	check(t, os.Mkdir(filepath.Join(f.dir, "inbox/tmp/old"), 0o700))
	past := time.Now().Add(-2 * time.Hour)
	check(t, os.Chtimes(filepath.Join(f.dir, "inbox/tmp/old"), past, past))
	check(t, os.Mkdir(filepath.Join(f.dir, "store/act/.part"), 0o700))
	check(t, f.store.Sweep(time.Now().Add(time.Second)))
	left, err := filepath.Glob(filepath.Join(f.dir, "*/*/*"))
	check(t, err)
	hidden, err := os.ReadDir(filepath.Join(f.dir, "store/act"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "young" || len(hidden) != 0 {
		t.Errorf("left %v %v, %v", left, hidden, err)
	}
}
