package profile

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// UnitDirs are where systemd looks for units, without the leading slash.
func UnitDirs() []string {
	return []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
}

// Detect chooses the profile of the node whose root file system this is.
func Detect(root fs.FS) (Profile, error) {
	all, err := All()
	if err != nil {
		return Profile{}, err
	}
	for _, p := range all {
		for _, s := range p.Signs {
			if why := sign(root, s); why != "" {
				p.Why = why
				return p, nil
			}
		}
	}
	p := all[len(all)-1]
	p.Why = "there is no sign of any other"
	return p, nil
}

// sign says where a sign was seen; empty: it is not there.
func sign(root fs.FS, s string) string {
	kind, what, _ := strings.Cut(s, ":")
	switch kind {
	case "unit":
		if file := UnitFile(root, what); file != "" {
			return "there is /" + file
		}
	case "enabled":
		links, _ := fs.Glob(root, "etc/systemd/system/*.wants/"+what) // the pattern is ours
		if len(links) > 0 {
			return what + " is enabled by /" + links[0]
		}
	case "file":
		if _, err := fs.Stat(root, what); err == nil {
			return "there is /" + what
		}
	case "os":
		if file, id := osID(root); id == what {
			return fmt.Sprintf("/%s says ID=%s", file, id)
		}
	}
	return ""
}

// UnitFile is the file of a unit, or nothing.
func UnitFile(root fs.FS, unit string) string {
	names := []string{unit}
	if name, _, ok := strings.Cut(unit, "@"); ok {
		names = append(names, name+"@.service")
	}
	for _, dir := range UnitDirs() {
		for _, name := range names {
			if _, err := fs.Lstat(root, path.Join(dir, name)); err == nil {
				return path.Join(dir, name)
			}
		}
	}
	return ""
}

// Unit is the first of the profile's units that is there: an enabled one if there are several.
func (p Profile) Unit(root fs.FS) string {
	found := ""
	for _, u := range p.Units {
		switch {
		case UnitFile(root, u) == "":
		case sign(root, "enabled:"+u) != "":
			return u
		case found == "":
			found = u
		}
	}
	return found
}

func osID(root fs.FS) (file, id string) {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		b, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
				return file, strings.Trim(v, `"'`)
			}
		}
	}
	return "", ""
}
