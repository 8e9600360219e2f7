package main

import (
	"fmt"
	"regexp"
)

// reason is why quiesce may refuse a config that containerd's dump accepts: each is a trap in which the daemon does not
// start, CRI does not load, or what it reads is left to chance.
type reason struct {
	text *regexp.Regexp // of what quiesce says
	why  string
}

// reasons are all.
func reasons() []reason {
	of := func(text, why string) reason { return reason{regexp.MustCompile(text), why} }
	return []reason{
		of(`imports \S+, which does not exist`, "the daemon does not start, and the dump reads over it (cmd/containerd/command/config.go, dumpConfig)"),
		of(`disabled_plugins has "\S+", so no pod can use a handler`, "CRI is disabled"),
		of(`default_runtime_name is "[^"]*" and there is no such runtime`, "CRI does not load (internal/cri/config, ValidateRuntimeConfig)"),
		of(`imports ".*", which would take the new directory \S+ for a config file`, "a pattern would read the directory of drop-ins"),
		of(`imports ".*": syntax error in pattern`, "the first file whose name comes so far stops containerd"),
		of(`containerd before 2\.0 reads over the key "[^"]*"`, "go-toml v1 counts case"),
		of(`the key "[^"]*" of CRI stops containerd's move of older tables or not`, "the migration counts case, and the decoder does not (plugins/cri/runtime/plugin.go)"),
		of(`has tables of both "\S+" and "\S+"`, "one of them is dropped in the order of a map (v1Migrate)"),
		of(`the key ".*" is there twice, in different cases`, "the decoder takes either"),
		of(`"[^"]*" of CRI must be a table`, "CRI does not load"),
	}
}

// unlisted are the refusals of what containerd accepts for which there is no reason.
func unlisted(cells []*cell) (out []string) {
	for _, c := range cells {
		if c.accepted && c.verdict == refused && !listed(c.why) {
			out = append(out, fmt.Sprintf("%s  %s, %s: %s", c.version, c.file, c.operation, c.why))
		}
	}
	return out
}

func listed(why string) bool {
	for _, r := range reasons() {
		if r.text.MatchString(why) {
			return true
		}
	}
	return false
}
