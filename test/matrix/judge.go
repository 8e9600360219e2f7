package main

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// dump is what the jail's containerd makes of the config that is there.
func (j *jail) dump(ctx context.Context) (map[string]any, error) {
	var out, errs bytes.Buffer
	cmd := j.command(ctx, "/bin/containerd", "--config", root, "config", "dump")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, lastLine(errs.String()))
	}
	tree := map[string]any{}
	if err := toml.Unmarshal(out.Bytes(), &tree); err != nil {
		return nil, fmt.Errorf("read what containerd prints: %w", err)
	}
	delete(tree, "imports") // the list of the files that were read
	return tree, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// runtimes are the runtime handlers of a dump: the table to which they are added, whatever its version calls the plugin.
func runtimes(tree map[string]any) map[string]any {
	plugins, _ := tree["plugins"].(map[string]any)
	for _, id := range []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"} {
		plugin, _ := plugins[id].(map[string]any)
		containerd, _ := plugin["containerd"].(map[string]any)
		if table, ok := containerd["runtimes"].(map[string]any); ok {
			return table
		}
	}
	return nil
}

// judge compares two dumps: after must have exactly want besides what before has. Empty: it is so.
func judge(before, after map[string]any, want []handler) string {
	have := runtimes(after)
	for _, h := range want {
		if _, there := runtimes(before)[h.Name]; there {
			return fmt.Sprintf("handler %s was there before", h.Name)
		}
		table, ok := have[h.Name].(map[string]any)
		if !ok {
			return fmt.Sprintf("handler %s is missing", h.Name)
		}
		if wrong := h.wrong(table); wrong != "" {
			return fmt.Sprintf("handler %s: %s", h.Name, wrong)
		}
		delete(have, h.Name)
	}
	if diff := differs("", before, after); diff != "" {
		return "besides the handlers: " + diff
	}
	return ""
}

// wrong says what of a handler is not as asked for. What nobody asked for must say nothing.
func (h handler) wrong(table map[string]any) string {
	if table["runtime_type"] != h.Type {
		return fmt.Sprintf("runtime_type is %v", table["runtime_type"])
	}
	options, _ := table["options"].(map[string]any)
	if len(options) != len(h.Options) || len(options) > 0 && !reflect.DeepEqual(options, h.Options) {
		return fmt.Sprintf("options are %v", options)
	}
	for key, value := range table {
		asked, ok := h.Settings[key]
		switch {
		case key == "runtime_type" || key == "options":
		case ok && !reflect.DeepEqual(asked, value):
			return fmt.Sprintf("%s is %v", key, value)
		case !ok && !blank(key, value):
			return fmt.Sprintf("%s is %v, which nobody asked for", key, value)
		}
	}
	for key := range h.Settings {
		if _, ok := table[key]; !ok {
			return key + " is missing"
		}
	}
	return ""
}

// blank tells whether a value is what containerd fills in by itself.
func blank(key string, value any) bool {
	if key == "sandboxer" || key == "sandbox_mode" {
		return value == "podsandbox" || value == ""
	}
	list, isList := value.([]any)
	return isList && len(list) == 0 || !isList && reflect.ValueOf(value).IsZero()
}

// differs names the first place where two trees are not the same.
func differs(path string, a, b any) string {
	ta, isA := a.(map[string]any)
	tb, isB := b.(map[string]any)
	if !isA || !isB {
		if reflect.DeepEqual(a, b) {
			return ""
		}
		return fmt.Sprintf("%s was %v and is %v", strings.TrimPrefix(path, "."), a, b)
	}
	keys := map[string]bool{}
	for key := range ta {
		keys[key] = true
	}
	for key := range tb {
		keys[key] = true
	}
	var all []string
	for key := range keys {
		all = append(all, key)
	}
	slices.Sort(all)
	for _, key := range all {
		if diff := differs(path+"."+key, ta[key], tb[key]); diff != "" {
			return diff
		}
	}
	return ""
}
