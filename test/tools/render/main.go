// Command render turns what manifests/ holds into the objects that a cluster would get, with the libraries that the
// operators' tools are made of, and reads every one strictly as its API type. It prints them as a JSON list.
//
//	render yaml FILE…            files as they are
//	render kustomize DIR         what `kubectl kustomize` makes of it
//	render helm DIR [VALUES]     what `helm template` makes of it, after `helm lint`; VALUES is JSON
//	render queries FILE…         the PromQL expressions of rule files (.yaml) and dashboards (.json), parsed: what they select
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

func main() {
	out, err := run(os.Args[1:])
	if err == nil {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(args []string) (any, error) {
	if len(args) < 2 {
		return nil, errors.New("usage: render yaml|kustomize|helm|queries PATH…")
	}
	switch verb, paths := args[0], args[1:]; verb {
	case "yaml":
		return files(paths)
	case "kustomize":
		return kustomize(paths[0])
	case "helm":
		return helm(paths[0], paths[1:])
	case "queries":
		return queries(paths)
	default:
		return nil, fmt.Errorf("no verb %q", verb)
	}
}
