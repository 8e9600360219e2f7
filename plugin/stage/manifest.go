package stage

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Prefix starts every label and annotation of quiesce.
const Prefix = "quiesce.internal/"

// Schema is the version of the manifest that this package writes and reads.
const Schema = 1

// Limits of an entry.
const (
	MaxManifest = 1 << 20 // bytes
	MaxFiles    = 64
	MaxFile     = 1 << 30 // bytes
)

// Op is what an entry does with its handlers.
type Op string

// The two ops.
const (
	Install Op = "install"
	Remove  Op = "remove"
)

// Owner is the pod that staged an entry, as far as it knows itself. It is for people: nothing is decided by it.
type Owner struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Handler is a CRI runtime handler as an installer declares it.
type Handler struct {
	Name        string         `json:"name"`                   // RuntimeClass.handler
	Shim        string         `json:"shim,omitempty"`         // which of the entry's files is the shim; none: it is on the node
	RuntimeType string         `json:"runtime_type,omitempty"` // io.containerd.NAME.vN; empty with a shim
	Options     map[string]any `json:"options,omitempty"`      // the runtime's options table
	Settings    map[string]any `json:"settings,omitempty"`     // further keys of the runtime's table, from the Settings allow-list
	Adopt       bool           `json:"adopt,omitempty"`        // replace a handler of this name that is not quiesce's; removal gives it back
}

// File is one payload file; its bytes are in files/INDEX.
type File struct {
	Name   string      `json:"name"` // a plain name, never a path
	Mode   fs.FileMode `json:"mode"` // 0755 or 0644
	Size   int64       `json:"size"` // bytes
	SHA256 string      `json:"sha256"`
}

// Manifest declares one change.
type Manifest struct {
	Schema     int       `json:"schema"`
	ID         string    `json:"id"`
	Owner      Owner     `json:"owner"`
	Op         Op        `json:"op"`
	Handlers   []Handler `json:"handlers"`
	Files      []File    `json:"files,omitempty"`
	Supersedes []string  `json:"supersedes,omitempty"` // staged entries that this one makes void
	Drain      bool      `json:"drain,omitempty"`      // stop the pods of its handlers first, and let no new one begin until then
	Created    time.Time `json:"created"`
}

// NewID makes an id that starts with a name people recognise.
func NewID(op Op, handler string) string {
	return string(op) + "-" + handler + "-" + strings.ToLower(rand.Text()[:10])
}

var (
	idForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,127}$`)
	handlerForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	fileForm    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$`)
	typeForm    = regexp.MustCompile(`^io\.containerd\.[a-z0-9][a-z0-9_-]{0,62}\.v[0-9]{1,3}$`)
	keyForm     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	shaForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// settings are the keys of a runtime's table that an entry may set (containerd internal/cri/config/config.go, Runtime).
var settings = []string{
	"base_runtime_spec", "cgroup_writable", "cni_conf_dir", "cni_max_conf_num", "container_annotations", "io_type",
	"pod_annotations", "privileged_without_host_devices", "privileged_without_host_devices_all_devices_allowed",
	"sandboxer", "snapshotter",
}

// ParseManifest decodes and validates; fields it does not know are an error.
func ParseManifest(b []byte) (Manifest, error) {
	var m Manifest
	if len(b) > MaxManifest {
		return m, fmt.Errorf("read manifest.json: %d bytes, more than the %d allowed", len(b), MaxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		var version struct{ Schema int }
		if json.Unmarshal(b, &version) == nil && version.Schema > Schema {
			return m, schemaError(version.Schema)
		}
		return m, errors.New("read manifest.json: " + brief(err.Error()))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("read manifest.json: more than one JSON value")
	}
	return m, m.Validate()
}

func schemaError(n int) error {
	return fmt.Errorf("manifest.json: schema %d is not known, this quiesce reads schema %d", n, Schema)
}

// Validate checks every field by itself and against the others.
func (m *Manifest) Validate() error {
	if err := m.ValidateRequest(); err != nil {
		return err
	}
	for _, f := range m.Files {
		switch {
		case f.Size < 1 || f.Size > MaxFile:
			return fieldError("files.size", fmt.Sprint(f.Size), fmt.Sprintf("must be 1 to %d bytes", MaxFile))
		case !shaForm.MatchString(f.SHA256):
			return fieldError("files.sha256", f.SHA256, "must be 64 lower-case hex digits")
		}
	}
	return nil
}

// ValidateRequest is Validate of an entry that is still to be staged, which fills in size and digest of its files.
func (m *Manifest) ValidateRequest() error {
	switch {
	case m.Schema != Schema:
		return schemaError(m.Schema)
	case !idForm.MatchString(m.ID):
		return fieldError("id", m.ID, "must be lower-case letters, digits and dashes")
	case m.ID == restartID:
		return fieldError("id", m.ID, "is reserved")
	case m.Op != Install && m.Op != Remove:
		return fieldError("op", string(m.Op), `must be "install" or "remove"`)
	case len(m.Handlers) == 0:
		return errors.New("manifest.json: handlers: names no handler")
	case len(m.Handlers) > MaxFiles || len(m.Files) > MaxFiles || len(m.Supersedes) > 1000:
		return errors.New("manifest.json: more handlers, files or supersedes than allowed")
	}
	if err := m.validateFiles(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, h := range m.Handlers {
		if err := m.validateHandler(h); err != nil {
			return err
		}
		if seen[h.Name] {
			return fieldError("handlers.name", h.Name, "is declared twice")
		}
		seen[h.Name] = true
	}
	return nil
}

func (m *Manifest) validateHandler(h Handler) error {
	if err := ValidHandler(h.Name); err != nil {
		return err
	}
	if m.Op == Remove {
		if h.Shim != "" || h.RuntimeType != "" || h.Adopt || len(h.Options)+len(h.Settings) > 0 {
			return fieldError("handlers", h.Name, "a removal has names only")
		}
		return nil
	}
	if (h.Shim == "") == (h.RuntimeType == "") {
		return fieldError("handlers", h.Name, "needs either shim or runtime_type")
	}
	if h.RuntimeType != "" && !typeForm.MatchString(h.RuntimeType) {
		return fieldError("handlers.runtime_type", h.RuntimeType, "must look like io.containerd.NAME.v2")
	}
	if h.Shim != "" && !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == h.Shim && f.Mode == 0o755 }) {
		return fieldError("handlers.shim", h.Shim, "is not one of the entry's executable files")
	}
	for k := range h.Settings {
		if !slices.Contains(settings, k) {
			return fieldError("handlers.settings", k, "is not a setting that an entry may change; allowed are "+strings.Join(settings, ", "))
		}
	}
	return errors.Join(validValues("handlers.options", h.Options, 0), validValues("handlers.settings", h.Settings, 0))
}

// ValidHandler checks a handler's name against what a RuntimeClass allows (RFC 1123 label).
func ValidHandler(name string) error {
	if !handlerForm.MatchString(name) {
		return fieldError("handlers.name", name, "must be at most 63 lower-case letters, digits and dashes, as in RuntimeClass.handler")
	}
	return nil
}

// validValues accepts what JSON and TOML both have and both mean the same by.
func validValues(field string, v any, depth int) error {
	switch v := v.(type) {
	case map[string]any:
		if depth > 4 {
			return errors.New("manifest.json: " + brief(field) + ": nested too deeply")
		}
		for k, e := range v {
			if !keyForm.MatchString(k) {
				return fieldError(field, k, "must be letters, digits, dashes and underscores")
			}
			if err := validValues(field+"."+k, e, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if _, ok := e.(string); !ok {
				return errors.New("manifest.json: " + brief(field) + ": a list may hold strings only")
			}
		}
	case json.Number:
		if _, err := v.Int64(); err != nil {
			return fieldError(field, v.String(), "must be a whole number")
		}
	case string, bool, int64:
	default:
		return fmt.Errorf("manifest.json: %s: a value of this kind (%T) is not allowed", brief(field), v)
	}
	return nil
}

func (m *Manifest) validateFiles() error {
	if m.Op == Remove && len(m.Files) > 0 {
		return errors.New("manifest.json: files: a removal has none")
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		switch {
		case !fileForm.MatchString(f.Name):
			return fieldError("files.name", f.Name, "must be a plain file name of letters, digits and ._+-")
		case seen[f.Name]:
			return fieldError("files.name", f.Name, "is declared twice")
		case f.Mode != 0o755 && f.Mode != 0o644:
			return fieldError("files.mode", fmt.Sprintf("%o", f.Mode), "must be 755 or 644")
		}
		seen[f.Name] = true
	}
	return nil
}

func fieldError(field, value, want string) error {
	return fmt.Errorf("manifest.json: %s: %q %s", brief(field), brief(value), want)
}

// brief keeps what a stranger wrote from filling an error.
func brief(text string) string {
	const limit = 200
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// Names lists the handlers.
func (m *Manifest) Names() []string {
	var names []string
	for _, h := range m.Handlers {
		names = append(names, h.Name)
	}
	return names
}

// Version names the content of the payload: the directory its files are placed in. Empty without files.
func (m *Manifest) Version() string {
	if len(m.Files) == 0 {
		return ""
	}
	var lines []string
	for _, f := range m.Files {
		lines = append(lines, fmt.Sprintf("%s %o %s\n", f.Name, f.Mode, f.SHA256))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:8])
}

// Same tells whether two entries ask for the same thing of the same handlers.
func (m *Manifest) Same(o *Manifest) bool {
	ask := func(m *Manifest) string {
		hs := slices.Clone(m.Handlers)
		slices.SortFunc(hs, func(a, b Handler) int { return strings.Compare(a.Name, b.Name) })
		b, err := json.Marshal(struct {
			Op       Op
			Handlers []Handler
			Version  string
		}{m.Op, hs, m.Version()})
		if err != nil {
			return m.ID // values that JSON cannot hold are the same as nothing
		}
		return string(b)
	}
	return ask(m) == ask(o)
}
