package config

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Place says which containerd is configured, and where.
type Place struct {
	Root     string // the file that containerd is given
	Version  string // containerd's, as it prints it: 2.4.2, v2.1.5-k3s1; empty: the newest
	Template string // the file from which Root is made at each start, which is then edited instead; empty: nobody makes it
	Dropins  string // the directory whose files somebody merges into the file Merged, which Root imports; empty: nobody does
	Merged   string
	NRI      bool // turn NRI on together with the first handler, where it is off by default: before containerd 2.0
}

// release is a version of containerd as far as it matters.
type release struct{ major, minor int }

var releaseForm = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:[^0-9].*)?$`)

// oldest is the first release whose way of merging is known here.
var oldest = release{1, 6}

func parseRelease(version string) (release, error) {
	if version == "" {
		return release{2, 4}, nil
	}
	m := releaseForm.FindStringSubmatch(strings.TrimSpace(version))
	if m == nil {
		return release{}, fmt.Errorf("read containerd's version: %q is not of the form MAJOR.MINOR.PATCH", version)
	}
	major, _ := strconv.Atoi(m[1]) // digits, and few
	minor, _ := strconv.Atoi(m[2])
	r := release{major, minor}
	if r.before(oldest) {
		return r, fmt.Errorf("containerd %s is not supported, the oldest is %d.%d; update containerd", version, oldest.major, oldest.minor)
	}
	return r, nil
}

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

// legacy says that a plugin's table replaces that of the files before it, whole (mergeConfig in containerd 1.7
// services/server/config/config.go).
func (r release) legacy() bool { return r.major < 2 }

// newest is the newest config version that a containerd reads (containerd version/version.go).
func (r release) newest() int {
	switch {
	case r.legacy():
		return 2
	case r.before(release{2, 3}):
		return 3
	}
	return newestVersion
}

// Version asks a containerd program for its version.
func Version(ctx context.Context, binary string) (string, error) {
	var out bytes.Buffer
	if err := (dumper{binary: binary, dir: "/"}).run(ctx, &out, "--version"); err != nil {
		return "", err
	}
	fields := strings.Fields(out.String()) // containerd MODULE VERSION REVISION
	if len(fields) < 3 || fields[0] != "containerd" {
		return "", fmt.Errorf("run %s --version: %q is not what containerd prints", binary, strings.TrimSpace(out.String()))
	}
	return fields[2], nil
}

// Remember is Version that asks a program again only when its file is another one. It is safe for concurrent use.
func Remember() func(ctx context.Context, binary string) (string, error) {
	var mu sync.Mutex
	var seen fs.FileInfo
	var of, version string
	return func(ctx context.Context, binary string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		now, err := os.Stat(binary)
		if err != nil {
			return "", fmt.Errorf("ask containerd's version: %w", err)
		}
		if of == binary && os.SameFile(now, seen) && now.ModTime().Equal(seen.ModTime()) {
			return version, nil
		}
		v, err := Version(ctx, binary)
		if err != nil {
			return "", err
		}
		of, seen, version = binary, now, v
		return v, nil
	}
}
