package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// cache is the directory tree that all test processes of a user share.
type cache struct{ dir string }

// openCache returns the cache at QUIESCE_CACHE, or below the user's cache directory.
func openCache() (cache, error) {
	dir := os.Getenv("QUIESCE_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			base = "/root/.cache"
		}
		dir = filepath.Join(base, "quiesce")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return cache{}, fmt.Errorf("find cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cache{}, fmt.Errorf("create cache: %w", err)
	}
	return cache{dir}, nil
}

// path joins elements to the cache's directory.
func (c cache) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// lock takes the named lock file; the returned function gives it back.
func (c cache) lock(ctx context.Context, name string) (func(), error) {
	f, err := os.OpenFile(c.path(name+".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", name, err)
	}
	err = poll(ctx, 50*time.Millisecond, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// artefact returns the directory rel of the cache, made by build unless it is there with all its files.
// build writes to a temporary directory, which is renamed when it is complete.
func (c cache) artefact(ctx context.Context, rel string, files []string, build func(ctx context.Context, dir string) error) (string, error) {
	final := c.path(rel)
	if hasAll(final, files) {
		return final, nil
	}
	unlock, err := c.lock(ctx, "artefacts")
	if err != nil {
		return "", err
	}
	defer unlock()
	if hasAll(final, files) {
		return final, nil
	}
	if err := c.rebuild(ctx, final, build); err != nil {
		return "", fmt.Errorf("make %s: %w", rel, err)
	}
	if !hasAll(final, files) {
		return "", fmt.Errorf("make %s: a file is missing among %v", rel, files)
	}
	return final, nil
}

// rebuild replaces what is at final; the caller holds the lock.
func (c cache) rebuild(ctx context.Context, final string, build func(ctx context.Context, dir string) error) error {
	stale, err := filepath.Glob(final + ".tmp-*")
	if err != nil {
		return fmt.Errorf("find leftovers: %w", err)
	}
	for _, dir := range append(stale, final) {
		if err := removeTree(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return fmt.Errorf("create parent: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), filepath.Base(final)+".tmp-")
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("open up directory: %w", err)
	}
	if err := build(ctx, tmp); err != nil {
		return errors.Join(err, removeTree(tmp))
	}
	if err := os.Rename(tmp, final); err != nil {
		return fmt.Errorf("rename into place: %w", err)
	}
	return nil
}

// hasAll reports whether dir holds every one of files; no files asks for the directory alone.
func hasAll(dir string, files []string) bool {
	for _, f := range append([]string{"."}, files...) {
		if _, err := os.Lstat(filepath.Join(dir, f)); err != nil {
			return false
		}
	}
	return true
}

// poll calls done every interval, at once first, until it says true, fails, or ctx ends.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
