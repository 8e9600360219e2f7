// Package manifests holds what quiesce puts on a node besides its programs: systemd's units and the default settings.
//
// The files are valid as they are, for a node whose containerd is containerd.service; for another unit they are rendered.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// DefaultUnit is the runtime's unit that the files name.
const DefaultUnit = "containerd.service"

//go:embed systemd/*.service
var units embed.FS

//go:embed config.toml
var config string

// Unit is one file for /etc/systemd/system.
type Unit struct {
	Name     string
	Text     []byte
	WantedBy []string // its [Install] section
}

// Units renders the units for the runtime's unit, in the order of their names.
func Units(runtime string) ([]Unit, error) {
	files, err := fs.ReadDir(units, "systemd")
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	var out []Unit
	for _, f := range files {
		b, err := fs.ReadFile(units, "systemd/"+f.Name())
		if err != nil {
			return nil, fmt.Errorf("read unit: %w", err)
		}
		text := strings.ReplaceAll(string(b), DefaultUnit, runtime)
		out = append(out, Unit{Name: f.Name(), Text: []byte(text), WantedBy: wantedBy(text)})
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
