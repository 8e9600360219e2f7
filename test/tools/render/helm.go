package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

const namespace = "quiesce"

// helm lints a chart and renders it.
func helm(dir string, more []string) ([]object, error) {
	values := map[string]any{}
	if len(more) > 0 {
		if err := json.Unmarshal([]byte(more[0]), &values); err != nil {
			return nil, fmt.Errorf("values: %w", err)
		}
	}
	var errs []error
	for _, m := range lint.RunAll(dir, values, namespace).Messages {
		if m.Severity >= support.WarningSev {
			errs = append(errs, m)
		}
	}
	chart, err := loader.Load(dir)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "quiesce", Namespace: namespace, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Engine{}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		o, err := decode(strings.NewReader(rendered[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, o...)
	}
	return objects, nil
}
