package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containerd/log"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/stage"
)

// handler is the runtime table of a live handler. A shim is named by its absolute path: it needs no PATH, and pods that
// run with an older version keep theirs (with runtime_path alone a restart orphans them, containerd#10811).
func (a *Apply) handler(name string, e stage.Entry) config.Handler {
	h, _ := e.Handler(name)
	typ := h.RuntimeType
	if h.Shim != "" {
		typ = filepath.Join(a.Shims, e.Version(), h.Shim)
	}
	return config.Handler{Name: name, Type: typ, Options: h.Options, Settings: h.Settings, Entry: e.ID, Adopt: h.Adopt}
}

// place puts the entry's files into the directory of their version. Existing ones are right already: the name is
// made from their digests.
func (a *Apply) place(ctx context.Context, e stage.Entry) error {
	if e.Op == stage.Remove || len(e.Files) == 0 {
		return nil
	}
	parent, err := stage.OpenTree(filepath.Dir(a.Shims))
	if err != nil {
		return fmt.Errorf("place shims: %w; `quiesce-installer host` makes the directory", err)
	}
	defer parent.Close()
	parent.Steps(a.at)
	version := e.Version()
	if err := parent.Mkdir(path.Join(filepath.Base(a.Shims), version), 0o755); err != nil {
		return err
	}
	t, err := stage.OpenTree(a.Shims)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Steps(a.at)
	if err := t.SweepTemp(version); err != nil { // of an apply that died
		return err
	}
	for i, f := range e.Files {
		name := path.Join(version, f.Name)
		if fi, err := os.Lstat(t.Path(name)); err == nil && fi.Mode().IsRegular() && fi.Size() == f.Size {
			continue
		}
		src, err := a.Store.Payload(e.ID, i)
		if err != nil {
			return err
		}
		err = errors.Join(t.Write(name, src, stage.Attr{Mode: f.Mode}), src.Close())
		if err != nil {
			return err
		}
		log.G(ctx).WithField("file", t.Path(name)).Info("shim placed")
	}
	return nil
}

// Unused lists the versions below shims that no live or pending entry has and no process runs.
func Unused(store *stage.Store, shims string) (versions []string, err error) {
	des, err := os.ReadDir(shims)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list shims: %w", err)
	}
	current, err := store.Current()
	if err != nil {
		return nil, err
	}
	acting, err := store.Acting()
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, e := range stage.Live(current) {
		keep[e.Version()] = true
	}
	for _, e := range acting {
		keep[e.Version()] = true
	}
	for _, de := range des {
		if !keep[de.Name()] {
			versions = append(versions, de.Name())
		}
	}
	if len(versions) == 0 {
		return nil, nil
	}
	running, err := executables()
	if err != nil {
		return nil, fmt.Errorf("look for shims in use: %w", err)
	}
	return slices.DeleteFunc(versions, func(v string) bool {
		dir := filepath.Join(shims, v) + "/"
		return slices.ContainsFunc(running, func(exe string) bool { return strings.HasPrefix(exe, dir) })
	}), nil
}

// sweepShims removes the versions that are of no use any more.
func (a *Apply) sweepShims(ctx context.Context) error {
	versions, err := Unused(a.Store, a.Shims)
	if err != nil || len(versions) == 0 {
		return err
	}
	t, err := stage.OpenTree(a.Shims)
	if err != nil {
		return err
	}
	defer t.Close()
	t.Steps(a.at)
	var errs error
	for _, v := range versions {
		log.G(ctx).WithField("directory", t.Path(v)).Info("shim removed")
		errs = errors.Join(errs, t.Remove(v))
	}
	return errs
}

// executables lists the programs of all processes of the host. An error says that some could not be looked at.
func executables() (exes []string, err error) {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, proc := range procs {
		if _, err := strconv.Atoi(proc.Name()); err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", proc.Name(), "exe"))
		switch {
		case err == nil:
			exes = append(exes, strings.TrimSuffix(exe, " (deleted)"))
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH): // kernel threads have none
		case errors.Is(err, fs.ErrPermission): // it is out of root's reach, and so no shim of the runtime's
		default:
			return nil, err
		}
	}
	return exes, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func ids(es []stage.Entry) (ids []string) {
	for _, e := range es {
		ids = append(ids, e.ID)
	}
	return ids
}
