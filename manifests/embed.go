// Package manifests holds what quiesce puts on a node besides its programs: systemd's units, a drop-in for logind and the
// default settings.
//
// The files are valid as they are, for a node whose containerd is containerd.service; for another unit they are rendered.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// DefaultUnit is the runtime's unit that the files name.
const DefaultUnit = "containerd.service"

//go:embed systemd
var units embed.FS

//go:embed config.toml
var config string

// LogindName is the name of Logind's file in /etc/systemd/logind.conf.d.
const LogindName = "zz-quiesce.conf"

//go:embed logind/zz-quiesce.conf
var logind []byte

// Logind is the drop-in that lets a drain delay a shutdown for long enough.
func Logind() []byte { return slices.Clone(logind) }

// Unit is one file for /etc/systemd/system.
type Unit struct {
	Name     string // a drop-in's has a directory
	Text     []byte
	WantedBy []string // its [Install] section
}

// DropIn tells whether it adds to other units, and is none itself.
func (u Unit) DropIn() bool { return strings.Contains(u.Name, "/") }

// Units renders the units for the runtime's unit, and their drop-ins, in the order of their names.
func Units(runtime string) ([]Unit, error) {
	var out []Unit
	err := fs.WalkDir(units, "systemd", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		b, err := fs.ReadFile(units, path)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(b), DefaultUnit, runtime)
		out = append(out, Unit{Name: strings.TrimPrefix(path, "systemd/"), Text: []byte(text), WantedBy: wantedBy(text)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	return out, nil
}

func wantedBy(text string) []string {
	for line := range strings.Lines(text) {
		if names, ok := strings.CutPrefix(line, "WantedBy="); ok {
			return strings.Fields(names)
		}
	}
	return nil
}

// Config is the default config.toml. A runtime unit that is not the default is set in it.
func Config(runtime string) []byte {
	if runtime == DefaultUnit {
		return []byte(config)
	}
	return []byte(strings.Replace(config, `#unit = "`+DefaultUnit+`"`, `unit = "`+runtime+`"`, 1))
}

var unitLine = regexp.MustCompile(`(?m)^unit\s*=\s*"([^"]+)"`)

// ConfigUnit is the runtime's unit that a config.toml sets, or the default.
func ConfigUnit(text []byte) string {
	if m := unitLine.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return DefaultUnit
}
