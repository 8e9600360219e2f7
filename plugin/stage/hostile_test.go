package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// harmed is an entry that an installer never writes: what to do to a good one in inbox/new/a, and why it is refused.
type harmed struct {
	harm func(dir string) error
	want string
}

// instead puts something else where a part of the entry is.
func instead(part string, put func(at string) error) func(string) error {
	return func(dir string) error {
		at := filepath.Join(dir, part)
		return errors.Join(os.RemoveAll(at), put(at))
	}
}

func write(b []byte) func(string) error {
	return func(at string) error { return os.WriteFile(at, b, 0o600) }
}

func link(to string) func(string) error {
	return func(at string) error { return os.Symlink(to, at) }
}

func special(kind uint32) func(string) error {
	return func(at string) error { return syscall.Mknod(at, kind|0o600, 1<<8|5) } // as a device: zero
}

// outside moves a part of the entry to inbox/tmp and links to it: the link stays in the inbox.
func outside(part, to string) func(string) error {
	return func(dir string) error {
		return errors.Join(os.Rename(filepath.Join(dir, part), filepath.Join(dir, "../../tmp/moved")), os.Symlink(to, filepath.Join(dir, part)))
	}
}

func edit(old, new string) func(string) error {
	return func(dir string) error {
		b, err := os.ReadFile(dir + "/manifest.json")
		if err == nil && !bytes.Contains(b, []byte(old)) {
			err = fmt.Errorf("the manifest has no %s: %s", old, b)
		}
		return errors.Join(err, os.WriteFile(dir+"/manifest.json", bytes.Replace(b, []byte(old), []byte(new), 1), 0o600))
	}
}

func many(n int) func(string) error {
	return func(dir string) (err error) {
		for i := range n {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "files", fmt.Sprint("x", i)), nil, 0o600))
		}
		return err
	}
}

// deep makes directories below each other, deeper than a path can name.
func deep(n int) func(string) error {
	return func(dir string) error {
		at, err := os.OpenRoot(dir + "/files")
		for range n {
			if err != nil {
				return err
			}
			if err = at.Mkdir("directory", 0o700); err == nil {
				var next *os.Root
				next, err = at.OpenRoot("directory")
				err = errors.Join(err, at.Close())
				at = next
			}
		}
		return errors.Join(err, at.Close())
	}
}

func hostile() map[string]harmed {
	const noDir, noFile, extra = "not a directory", "not a regular file", "is not in the manifest"
	return map[string]harmed{
		"the entry is a file":         {instead("", write(nil)), noDir},
		"the entry is a FIFO":         {instead("", special(syscall.S_IFIFO)), noDir},
		"the entry is a link":         {instead("", link("/etc")), "a symbolic link"},
		"the entry is a link inside":  {outside("", "../tmp/moved"), "a symbolic link"},
		"files is a link":             {instead("files", link("/etc")), "a symbolic link"},
		"files is a link inside":      {outside("files", "../../tmp/moved"), "a symbolic link"},
		"files is a file":             {instead("files", write(nil)), noDir},
		"files is missing":            {func(d string) error { return os.RemoveAll(d + "/files") }, "no such file"},
		"a file is a device":          {instead("files/0", special(syscall.S_IFCHR)), noFile},
		"a file is a socket":          {instead("files/0", special(syscall.S_IFSOCK)), noFile},
		"a file is a directory":       {instead("files/0", func(at string) error { return os.Mkdir(at, 0o700) }), noFile},
		"a file is a link inside":     {outside("files/0", "../../../tmp/moved"), "a symbolic link"},
		"the manifest is a FIFO":      {instead("manifest.json", special(syscall.S_IFIFO)), noFile},
		"the manifest is a device":    {instead("manifest.json", special(syscall.S_IFCHR)), noFile},
		"the manifest is a link":      {outside("manifest.json", "../../tmp/moved"), "a symbolic link"},
		"the manifest is a hard link": {func(d string) error { return os.Link(d+"/manifest.json", d+"/../../tmp/m") }, "hard links"},
		"the manifest is missing":     {func(d string) error { return os.Remove(d + "/manifest.json") }, "no such file"},
		"the manifest is binary":      {instead("manifest.json", write(bytes.Repeat([]byte{0, 0xff}, 1000))), "manifest.json"},
		"the manifest is very deep":   {instead("manifest.json", write(bytes.Repeat([]byte("["), MaxManifest))), "manifest.json"},
		"a field nobody knows":        {edit(`"op"`, `"dest":"/etc/cron.d","op"`), "dest"},
		"two manifests in one":        {edit("}\n", "}\n{}"), "manifest.json"},
		"an id that is reserved":      {edit(`"id": "a"`, `"id": "restart"`), "reserved"},
		"a handler with a quote":      {edit(`"spin"`, `"spi\"n"`), "handlers.name"},
		"a handler with a newline":    {edit(`"spin"`, `"spin\n[x]"`), "handlers.name"},
		"a handler with dots":         {edit(`"spin"`, `"../spin"`), "handlers.name"},
		"a huge handler":              {edit(`"spin"`, `"`+strings.Repeat("a", MaxManifest-2000)+`"`), "handlers.name"},
		"a deep option":               {edit(`"shim"`, `"options":`+strings.Repeat(`{"a":`, 50)+"1"+strings.Repeat("}", 50)+`,"shim"`), "too deeply"},
		"one file more":               {func(d string) error { return os.WriteFile(d+"/files/1", nil, 0o600) }, extra},
		"something more":              {func(d string) error { return os.WriteFile(d+"/etc\npasswd", nil, 0o600) }, extra},
		"ten thousand files":          {many(10_000), extra},
		"very deep directories":       {deep(3000), extra},
	}
}

func TestHostileEntries(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can run this test: it makes devices")
	}
	for name, tc := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			f.stage(t, install("a", "spin"), program(t))
			check(t, tc.harm(filepath.Join(f.dir, "inbox/new/a")))
			f.stage(t, install("good", "wasm"), program(t))
			var reasons []string
			for _, err := range f.takeAll(t) {
				if bad, ok := errors.AsType[*RejectedError](err); ok {
					reasons = append(reasons, bad.Reason)
				} else {
					check(t, err)
				}
			}
			if len(reasons) != 1 || !strings.Contains(reasons[0], tc.want) || len(reasons[0]) > 1000 {
				t.Errorf("refused because %.300q, want %q", reasons, tc.want)
			}
			if got := names(t, f.store.Acting); !slices.Equal(got, []string{"good"}) {
				t.Errorf("taken: %v", got)
			}
			if bad := must(f.store.Rejected()); len(bad) != 1 || bad[0].Reason == "" {
				t.Errorf("rejected: %+v", bad)
			}
			if left, err := os.ReadDir(filepath.Join(f.dir, "inbox/new")); err != nil || len(left) != 0 {
				t.Errorf("left in the inbox: %v, %v", left, err)
			}
		})
	}
}

// TestHostileNames: names of directories that are no ids, and rooms that are no directories.
func TestHostileNames(t *testing.T) {
	f := open(t)
	for _, n := range []string{"a b", "ä", "a\nb", "-x", strings.Repeat("n", 200), `"`, "restart"} {
		check(t, os.Mkdir(filepath.Join(f.dir, "inbox/new", n), 0o700))
	}
	check(t, errors.Join(os.Mkdir(filepath.Join(f.dir, "inbox/live.json"), 0o700), os.WriteFile(filepath.Join(f.dir, "inbox/live.json/x"), nil, 0o600)))
	check(t, f.store.PublishLive(nil))
	check(t, f.store.PublishRestart(Restart{}))
	for _, err := range f.takeAll(t) {
		bad, ok := errors.AsType[*RejectedError](err)
		if !ok {
			t.Errorf("taken: %v", err)
			continue
		}
		check(t, f.store.Publish(NewResult(Entry{Manifest: Manifest{ID: bad.ID}}, Rejected, bad.Reason)))
	}
	if bad := must(f.store.Rejected()); len(bad) != 7 {
		t.Errorf("%d rejected, want 7", len(bad))
	}
	if r := f.store.LastRestart(); r.Done != 1 {
		t.Errorf("the last restart is %+v", r)
	}
	check(t, errors.Join(os.Remove(filepath.Join(f.dir, "inbox/new")), os.Symlink("tmp", filepath.Join(f.dir, "inbox/new"))))
	if _, err := f.store.Staged(); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("a room that is a link: %v", err)
	}
}

// swapper renames all the time what is read: another file, a link out of the inbox, a FIFO.
func (f *fixture) swapper(stop <-chan struct{}, secret, dir, a, b string) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		at := filepath.Join(f.dir, "inbox/new/race", dir) + "/"
		_ = os.Symlink(secret, at+"link")
		_ = syscall.Mkfifo(at+"fifo", 0o600)
		for _, other := range []string{"link", "fifo", b} {
			_ = os.Rename(at+a, at+"kept")
			_ = os.Rename(at+other, at+a)
			_ = os.Rename(at+a, at+other)
			_ = os.Rename(at+"kept", at+a)
		}
		_ = os.Remove(at + "link")
		_ = os.Remove(at + "fifo")
	}
}

// TestFilesAreSwappedWhileTheyAreTaken: whatever is taken is what the manifest says; everything else is refused.
func TestFilesAreSwappedWhileTheyAreTaken(t *testing.T) {
	f := open(t)
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("secret"), 0o600))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	for _, s := range [][3]string{{"files", "0", "other"}, {"", "manifest.json", "files/0"}, {"", "files", "elsewhere"}, {"..", "race", "race2"}} {
		swaps.Go(func() { f.swapper(stop, secret, s[0], s[1], s[2]) })
	}
	count := map[string]int{}
	for ended := time.Now().Add(2 * time.Second); time.Now().Before(ended); {
		m := install("race", "spin")
		_ = os.RemoveAll(filepath.Join(f.dir, "inbox/new")) // a swapper may be faster
		_ = os.Mkdir(filepath.Join(f.dir, "inbox/new"), 0o700)
		if _, err := f.inbox.Stage(context.Background(), m, from(program(t)), nil); err != nil {
			continue // what is swapped is in the way
		}
		count[f.takeRaced(t, m)]++
	}
	close(stop)
	swaps.Wait()
	t.Logf("%v", count)
	if count["refused"] == 0 {
		t.Error("nothing was refused: the race is none")
	}
}

// takeRaced takes an entry that is changed meanwhile, tells how that ended, and clears the store.
func (f *fixture) takeRaced(t *testing.T, m Manifest) string {
	t.Helper()
	end := "taken"
	_, err := f.store.Take(context.Background(), Entry{Manifest: m})
	_, rejected := errors.AsType[*RejectedError](err)
	_, left := errors.AsType[*LeftError](err)
	switch {
	case rejected:
		end = "refused"
	case left:
		end = "left"
	default:
		check(t, err)
	}
	for _, e := range must(f.store.Acting()) {
		if b, err := os.ReadFile(filepath.Join(f.dir, "store/act", e.ID, "files/0")); err != nil || !bytes.Equal(b, program(t)) {
			t.Fatalf("taken with the file %q, %v", b, err)
		}
		check(t, f.store.Discard(e))
	}
	for _, e := range must(f.store.Rejected()) {
		check(t, f.store.store.Remove("bad/"+e.ID))
	}
	return end
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestAFailedWriteLeavesNothing: neither a part of the file, nor one of several changes.
func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	tree, err := OpenTree(dir)
	check(t, err)
	defer tree.Close()
	if err := tree.Write("a", brokenReader{}, Attr{Mode: 0o600}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	f := open(t)
	changes := []Change{
		{Path: filepath.Join(dir, "first"), New: []byte("new"), Attr: Attr{Mode: 0o600}},
		{Path: filepath.Join(dir, strings.Repeat("n", 300)), New: []byte("new"), Attr: Attr{Mode: 0o600}}, // no name is so long
	}
	if err := f.store.Write(changes); err == nil {
		t.Error("it was written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func FuzzParseManifest(f *testing.F) {
	good := install("a", "spin")
	good.Files[0].Size, good.Files[0].SHA256 = 1, strings.Repeat("a", 64)
	good.Handlers[0].Options = map[string]any{"a": map[string]any{"b": []any{"c"}, "n": 1}}
	for _, m := range []Manifest{good, remove("r", "spin", "wasm")} {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"schema":99}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, name := range append(m.Names(), m.ID) {
			if strings.ContainsAny(name, "/\\\"'\n. ") || name == "" {
				t.Errorf("a name %q", name)
			}
		}
		for _, file := range m.Files {
			if file.Name != filepath.Base(file.Name) || file.Mode != file.Mode.Perm() {
				t.Errorf("a file %+v", file)
			}
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("it cannot be written: %v", err)
		}
		if m2, err := ParseManifest(again); err != nil || !m.Same(&m2) {
			t.Errorf("read again it is %+v, %v; was %+v", m2, err, m)
		}
	})
}
