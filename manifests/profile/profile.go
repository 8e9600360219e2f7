package profile

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

//go:embed data
var data embed.FS

// Profile is how a distribution keeps its containerd. Paths are absolute.
type Profile struct {
	Name    string   `toml:"name"`
	Signs   []string `toml:"signs"`  // unit:NAME, enabled:NAME, file:PATH or os:ID of os-release; one of them is enough
	Refuse  string   `toml:"refuse"` // why nothing can be done here, and what is the supported way
	Warning string   `toml:"warning"`

	Units         []string `toml:"units"` // of which one runs containerd, or a program that does
	Restart       Restart  `toml:"restart"`
	Socket        string   `toml:"socket"`
	Config        string   `toml:"config"`      // as containerd reads it
	Template      string   `toml:"template"`    // what Config is rendered from
	Dropins       string   `toml:"dropins"`     // the directory of drop-ins, where Config does not say it by a glob
	Merged        string   `toml:"merged"`      // what the drop-ins are merged into
	CopyFrom      string   `toml:"copyFrom"`    // what Config is at first, where the unit reads another, read-only file
	Environment   string   `toml:"environment"` // what tells the unit to read Config
	Kubelet       string   `toml:"kubelet"`     // its root directory
	Shims         string   `toml:"shims"`       // the directory that shims are placed in
	FreezeLimit   string   `toml:"freezeLimit"`
	VerifyTimeout string   `toml:"verifyTimeout"`
	StopsWith     []string `toml:"stopsWith"`   // units that have the kubelet in them: their stop ends the node's service, too
	Regenerated   string   `toml:"regenerated"` // what rewrites Config, and how a change survives that

	Why   string `toml:"-"` // it was chosen
	Asked bool   `toml:"-"` // Socket is somebody's word: no kubelet is asked
}

// Restart is who restarts containerd when its config has changed.
type Restart string

// By its unit's restart, or by itself as soon as a file is there.
const (
	ByUnit Restart = "unit"
	BySelf Restart = "self"
)

// All are the profiles in the order in which they are tried.
func All() ([]Profile, error) {
	files, err := data.ReadDir("data")
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	var all []Profile
	for _, f := range files {
		b, err := data.ReadFile(path.Join("data", f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read profiles: %w", err)
		}
		p := Profile{
			Restart: ByUnit, Socket: "/run/containerd/containerd.sock", Kubelet: "/var/lib/kubelet", Shims: "/opt/quiesce/shims",
			FreezeLimit: "10s", VerifyTimeout: "1m",
		}
		if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(&p); err != nil {
			return nil, fmt.Errorf("read profile %s: %w", f.Name(), err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Named is the profile with a name.
func Named(name string) (Profile, error) {
	all, err := All()
	if err != nil {
		return Profile{}, err
	}
	var names []string
	for _, p := range all {
		if p.Name == name {
			p.Why = "the settings say so"
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("there is no profile %q; there are %s", name, strings.Join(names, ", "))
}

// Limits are the profile's durations.
func (p Profile) Limits() (freeze, verify time.Duration, err error) {
	if freeze, err = time.ParseDuration(p.FreezeLimit); err != nil {
		return 0, 0, fmt.Errorf("profile %s: freezeLimit: %w", p.Name, err)
	}
	if verify, err = time.ParseDuration(p.VerifyTimeout); err != nil {
		return 0, 0, fmt.Errorf("profile %s: verifyTimeout: %w", p.Name, err)
	}
	return freeze, verify, nil
}

// Own tells whether a unit is one of the profile's.
func (p Profile) Own(unit string) bool { return slices.Contains(p.Units, unit) }
