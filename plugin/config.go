package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"quiesce/manifests"
	"quiesce/manifests/profile"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/stage"
)

const defaultConfig = "/etc/quiesce/config.toml"

// Duration is written as in Go, "5s". It is a struct so that a number without a unit is an error, not nanoseconds.
type Duration struct {
	time.Duration `toml:"-"`
}

// UnmarshalText is part of encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v < 0 {
		err = errors.New("must not be negative")
	}
	d.Duration = v
	return err
}

// Config is everything an operator can set. Defaults, then the file.
type Config struct {
	QuietPeriod         Duration `toml:"quietPeriod"`         // how long nothing may be in the way before containerd is restarted
	InstallerTimeout    Duration `toml:"installerTimeout"`    // after this long an installer is called stuck
	UndecidedTimeout    Duration `toml:"undecidedTimeout"`    // how long pods that only might be installers are waited for
	MaxDefer            Duration `toml:"maxDefer"`            // after this long installers in flight no longer count; 0: never
	VerifyTimeout       Duration `toml:"verifyTimeout"`       // how long containerd may take to come back
	FreezeLimit         Duration `toml:"freezeLimit"`         // how long containers may be frozen for a restart; 0: none is
	FreezeServices      []string `toml:"freezeServices"`      // labels of pods that do not run to completion: they are not frozen
	InstallerNamespaces []string `toml:"installerNamespaces"` // where pods are believed that say they are installers
	InstallerJobs       []string `toml:"installerJobs"`       // globs of Job names there
	InstallerImages     []string `toml:"installerImages"`     // globs of image names there
	InstallerPaths      []string `toml:"installerPaths"`      // writable mounts of these make a Job's pod an installer, anywhere

	Profile          string `toml:"profile"`          // how this distribution keeps its containerd; empty: what the node looks like
	Unit             string `toml:"unit"`             // containerd's unit
	ContainerdConfig string `toml:"containerdConfig"` // its config file; empty: what its command line says
	ContainerdBinary string `toml:"containerdBinary"` // its program; empty: what its command line says
	CRISocket        string `toml:"criSocket"`        // containerd's socket
	NRISocket        string `toml:"nriSocket"`        // that of its NRI
	EnableNRI        bool   `toml:"enableNRI"`        // before containerd 2.0: turn NRI on together with the first handler
	PodsSocket       string `toml:"podsSocket"`       // the kubelet's local pods API; empty: it is not asked

	Drain DrainConfig `toml:"drain"` // how pods are stopped

	MetricsAddress string `toml:"metricsAddress"` // a TCP address that serves /metrics too, such as "127.0.0.1:9477"; empty: none
	NodeLabels     bool   `toml:"nodeLabels"`     // tell Node Feature Discovery which handlers are live

	StageDir  string `toml:"stageDir"`  // where changes wait; it is made by quiesce-installer host
	ShimDir   string `toml:"shimDir"`   // where shims are placed, in a directory for each version
	RunDir    string `toml:"runDir"`    // sockets, and what is forgotten at a reboot
	LogLevel  string `toml:"logLevel"`  // error, warn, info, debug, trace
	LogFormat string `toml:"logFormat"` // text or json

	set struct{ profile, unit, socket bool } // what the file says of the runtime, and is not found
}

// defaults are those of a profile.
func defaults(p profile.Profile) (Config, error) {
	freezing, verify, err := p.Limits()
	if err != nil {
		return Config{}, err
	}
	return Config{
		QuietPeriod: Duration{5 * time.Second}, InstallerTimeout: Duration{30 * time.Minute}, UndecidedTimeout: Duration{time.Minute},
		VerifyTimeout:       Duration{verify},
		FreezeLimit:         Duration{freezing},
		FreezeServices:      freeze.DefaultRules().Services,
		InstallerNamespaces: []string{"kube-system", "quiesce", "kwasm", "kwasm-provisioner", "spinkube", "spin-operator", "rcm", "runtime-class-manager", "runtime-class-manager-system"},
		InstallerJobs:       []string{"*-install", "*-uninstall"},
		InstallerImages:     []string{"*quiesce-installer*", "*kwasm-node-installer*", "*runtime-class-manager*", "*node-installer*", "*kata-deploy*"},
		InstallerPaths:      []string{"/etc/containerd", "/usr/local/bin", "/usr/bin", "/opt/kwasm", "/opt/rcm"},
		Profile:             p.Name,
		NRISocket:           "/var/run/nri/nri.sock",
		EnableNRI:           true,
		PodsSocket:          filepath.Join(p.Kubelet, "pods-api", "pods-api.sock"),
		StageDir:            stage.DefaultDir, ShimDir: p.Shims, RunDir: "/run/quiesce",
		LogLevel: "info", LogFormat: "text",
		NodeLabels: true,
		Drain:      drainDefaults(p),
	}, nil
}

// hostRoot is the node's file system.
func hostRoot() fs.FS { return os.DirFS("/") }

// namedProfile is the profile that the settings name, or nothing. What is wrong with them is told later, with the line.
func namedProfile(settings []byte) string {
	var named struct {
		Profile string `toml:"profile"`
	}
	_ = toml.Unmarshal(settings, &named)
	return named.Profile
}

// profileOf is the named profile, or the one that the node looks like.
func profileOf(name string) (profile.Profile, error) {
	if name != "" {
		return profile.Named(name)
	}
	return profile.Detect(hostRoot())
}

// profile is the one that the settings were read with.
func (c *Config) profile() (profile.Profile, error) {
	if c.set.profile {
		return profileOf(c.Profile)
	}
	return profileOf("")
}

// resolve fills in what the settings leave to what is found on the node.
func (c *Config) resolve(p profile.Profile) {
	c.set.unit, c.set.socket = c.Unit != "", c.CRISocket != ""
	if c.set.unit && c.set.socket {
		return
	}
	if c.CRISocket != "" {
		p.Socket, p.Asked = c.CRISocket, true
	}
	f := profile.Find(hostRoot(), p, profile.Behind)
	if f.PID == 0 { // it was found before it stopped
		var last profile.Found
		if stage.Node(filepath.Join(c.StageDir, "results"), &last) == nil && last.Profile == f.Profile && last.Socket == f.Socket {
			f.Unit = last.Unit
		}
	}
	c.CRISocket = cmp.Or(c.CRISocket, f.Socket)
	c.Unit = cmp.Or(c.Unit, f.Unit, manifests.DefaultUnit)
}

// fallback is for when the settings cannot be read.
func fallback() (Config, error) {
	p, err := profileOf("")
	if err != nil {
		return Config{}, err
	}
	c, err := defaults(p)
	c.resolve(p)
	return c, err
}

// readConfig reads the file, if there is one, over the defaults. Keys it does not know, mis-cased ones too, are an error.
func readConfig(path string) (Config, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path == defaultConfig {
		return fallback()
	}
	if err != nil {
		return Config{}, refuse("read configuration: %w", err)
	}
	name := namedProfile(b)
	p, err := profileOf(name)
	if err != nil {
		return Config{}, refuse("%s: profile: %w", path, err)
	}
	c, err := defaults(p)
	if err != nil {
		return c, err
	}
	d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, refuse("%s: %s", path, explain(b, err))
	}
	if err := exactKeys(b); err != nil {
		return c, refuse("%s: %w", path, err)
	}
	c.resolve(p)
	c.set.profile = name != ""
	if err := c.validate(); err != nil {
		return c, refuse("%s: %w", path, err)
	}
	return c, nil
}

// explain names the line.
func explain(text []byte, err error) string {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		row, _ := strict.Errors[0].Position()
		return fmt.Sprintf("line %d: %s is not a setting; `quiesce run --help` names the file with all of them", row, strings.Join(strict.Errors[0].Key(), "."))
	}
	if de, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := de.Position()
		return fmt.Sprintf("line %d: %s: %v", row, strings.Join(de.Key(), "."), err)
	}
	return cmp.Or(exactKeys(text), err).Error()
}

func (c *Config) validate() error {
	if err := errors.Join(node.ValidGlobs(c.InstallerJobs), node.ValidGlobs(c.InstallerImages)); err != nil {
		return err
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("logFormat: %q must be text or json", c.LogFormat)
	}
	if err := c.Drain.validate(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.MetricsAddress); c.MetricsAddress != "" && err != nil {
		return fmt.Errorf("metricsAddress: %q must be HOST:PORT", c.MetricsAddress)
	}
	if c.VerifyTimeout.Duration == 0 {
		return errors.New("verifyTimeout: must be more than 0s")
	}
	for field, p := range map[string]string{
		"criSocket": c.CRISocket, "nriSocket": c.NRISocket, "stageDir": c.StageDir, "shimDir": c.ShimDir, "runDir": c.RunDir,
	} {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("%s: %q must be an absolute path", field, p)
		}
	}
	return nil
}

func (c *Config) policy() gate.Policy {
	quiet := c.QuietPeriod.Duration
	return gate.Policy{
		Quiet: quiet, MaxDefer: c.MaxDefer.Duration, Undecided: c.UndecidedTimeout.Duration, Lead: min(quiet/2, time.Second),
	}
}

func (c *Config) rules() node.Rules {
	paths := append([]string{"/", filepath.Join(c.StageDir, "inbox"), c.ShimDir}, c.InstallerPaths...)
	return node.Rules{
		Label: stage.Prefix + "installer", Namespaces: c.InstallerNamespaces, Jobs: c.InstallerJobs, Images: c.InstallerImages,
		Paths: paths, Results: filepath.Join(c.StageDir, "results"), Undecided: c.UndecidedTimeout.Duration, Stuck: c.InstallerTimeout.Duration,
	}
}

func (c *Config) controlSocket() string { return filepath.Join(c.RunDir, "control.sock") }
func (c *Config) ticketFile() string    { return filepath.Join(c.RunDir, "ticket.json") }
