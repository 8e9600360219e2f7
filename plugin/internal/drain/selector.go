package drain

import (
	"fmt"
	"path"
	"strings"

	"quiesce/plugin/internal/node"
)

// Selector picks pods: [NAMESPACE/]TERM,TERM… with the terms key=value, key!=value, key and !key on labels.
// The namespace is a glob; without one every namespace matches.
type Selector struct {
	text      string
	namespace string
	terms     []term
}

type term struct {
	key, value string
	has, not   bool // has: the key only
}

// ParseSelector reads a selector. A slash before the first = or comma ends a namespace only if what follows is a term
// list, so that label keys with a prefix (example.com/app) can be used after an explicit namespace: */example.com/app=x.
func ParseSelector(text string) (Selector, error) {
	s := Selector{text: text}
	rest := strings.TrimSpace(text)
	if ns, terms, ok := strings.Cut(rest, "/"); ok && !strings.ContainsAny(ns, "=!,.") {
		if _, err := path.Match(ns, ""); err != nil {
			return s, fmt.Errorf("selector %q: %w", text, err)
		}
		s.namespace, rest = ns, terms
	}
	if rest == "" && s.namespace == "" {
		return s, fmt.Errorf("selector %q: is empty", text)
	}
	if rest == "" || rest == "*" {
		return s, nil
	}
	for part := range strings.SplitSeq(rest, ",") {
		t, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return s, fmt.Errorf("selector %q: %w", text, err)
		}
		s.terms = append(s.terms, t)
	}
	return s, nil
}

func parseTerm(part string) (term, error) {
	switch k, v, ok := strings.Cut(part, "="); {
	case ok && strings.HasSuffix(k, "!") && len(k) > 1:
		return term{key: strings.TrimSpace(k[:len(k)-1]), value: strings.TrimSpace(v), not: true}, nil
	case ok && k != "":
		return term{key: strings.TrimSpace(k), value: strings.TrimSpace(strings.TrimPrefix(v, "="))}, nil
	case !ok && strings.HasPrefix(part, "!") && len(part) > 1:
		return term{key: part[1:], has: true, not: true}, nil
	case !ok && part != "":
		return term{key: part, has: true}, nil
	}
	return term{}, fmt.Errorf("term %q is none of key=value, key!=value, key, !key", part)
}

// String is the selector as it was written.
func (s Selector) String() string { return s.text }

// MarshalText is part of encoding.TextMarshaler.
func (s Selector) MarshalText() ([]byte, error) { return []byte(s.text), nil }

// UnmarshalText is part of encoding.TextUnmarshaler.
func (s *Selector) UnmarshalText(b []byte) error {
	var err error
	*s, err = ParseSelector(string(b))
	return err
}

// Matches tells whether a pod is picked.
func (s Selector) Matches(p *node.Pod) bool {
	if s.namespace != "" {
		if ok, err := path.Match(s.namespace, p.Namespace); !ok || err != nil {
			return false
		}
	}
	for _, t := range s.terms {
		v, has := p.Labels[t.key]
		if t.has && has == t.not || !t.has && (has && v == t.value) == t.not {
			return false
		}
	}
	return true
}
