package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// selector is one selection of series in an expression.
type selector struct {
	File, Expression, Metric string
	Labels                   []string // that matchers and groupings of the expression name
}

// queries parses every expression of rule files and dashboards.
func queries(paths []string) (all []selector, err error) {
	for _, p := range paths {
		list := rules
		if filepath.Ext(p) == ".json" {
			list = panels
		}
		exprs, err := list(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for _, e := range exprs {
			s, err := selectors(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", p, e, err)
			}
			for i := range s {
				s[i].File = p
			}
			all = append(all, s...)
		}
	}
	return all, nil
}

// rules lists the expressions of a rule file, which Prometheus itself has to accept.
func rules(path string) (exprs []string, err error) {
	groups, errs := rulefmt.ParseFile(path, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
		}
	}
	return exprs, nil
}

// panels lists the expressions of a dashboard. Grafana's variables are replaced by values.
func panels(path string) (exprs []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	r := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$instance", ".*")
	for _, a := range d.Annotations.List {
		exprs = append(exprs, r.Replace(a.Expr))
	}
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			if t.Expr == "" {
				return nil, fmt.Errorf("panel %q has an empty expression", p.Title)
			}
			exprs = append(exprs, r.Replace(t.Expr))
		}
	}
	return exprs, nil
}

func selectors(expr string) (all []selector, err error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	var grouped []string
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if !n.Without {
				grouped = append(grouped, n.Grouping...)
			}
		case *parser.VectorSelector:
			s := selector{Expression: expr, Metric: n.Name}
			for _, m := range n.LabelMatchers {
				if m.Name != model.MetricNameLabel {
					s.Labels = append(s.Labels, m.Name)
				}
			}
			all = append(all, s)
		}
		return nil
	})
	for i := range all {
		all[i].Labels = slices.Compact(slices.Sorted(slices.Values(append(all[i].Labels, grouped...))))
	}
	return all, nil
}
