package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// LabelsFile is where Node Feature Discovery finds labels of ours, below the node's root
// (node-feature-discovery docs/usage/customization-guide.md, local feature source).
const LabelsFile = "etc/kubernetes/node-feature-discovery/features.d/quiesce"

// maxLabel is how long a label's name, and its value, may be (kubernetes apimachinery validation).
const maxLabel = 63

// Labels are the lines of LabelsFile: for each live handler that it is live, and the version of its payload. Handlers whose
// names are too long for a label have none.
func Labels(live map[string]Entry) []byte {
	var b strings.Builder
	for _, h := range slices.Sorted(maps.Keys(live)) {
		name, e := "quiesce-handler."+h, live[h]
		if len(name) > maxLabel {
			continue
		}
		fmt.Fprintf(&b, "%s=true\n", name)
		if v := e.Version(); v != "" {
			fmt.Fprintf(&b, "quiesce-version.%s=%s\n", h, v)
		}
	}
	return []byte(b.String())
}

// WriteLabels writes LabelsFile below root, or removes it if nothing is live or labels are not wanted.
func (s *Store) WriteLabels(root string, wanted bool) error {
	t, err := OpenTree(root)
	if err != nil {
		return err
	}
	defer t.Close()
	current, err := s.Current()
	if err != nil {
		return err
	}
	text := Labels(Live(current))
	old, err := t.Read(LabelsFile, MaxManifest)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !wanted || len(text) == 0:
		if err != nil {
			return nil // it is not there
		}
		return t.Remove(LabelsFile)
	case err == nil && bytes.Equal(old, text):
		return nil
	}
	if err := errors.Join(t.Mkdir(path.Dir(LabelsFile), 0o755), t.SweepTemp(path.Dir(LabelsFile))); err != nil {
		return err
	}
	return t.WriteBytes(LabelsFile, text, Attr{Mode: 0o644})
}
