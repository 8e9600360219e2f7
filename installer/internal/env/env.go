// Package env reads flags from environment variables; one that is empty counts as not set.
package env

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"
)

type variable string

// Lookup is part of cli.ValueSource.
func (v variable) Lookup() (string, bool) {
	s := os.Getenv(string(v))
	return s, s != ""
}

// IsFromEnv and Key are part of cli.EnvValueSource: the help names the variable.
func (v variable) IsFromEnv() bool  { return true }
func (v variable) Key() string      { return string(v) }
func (v variable) String() string   { return fmt.Sprintf("environment variable %q", string(v)) }
func (v variable) GoString() string { return fmt.Sprintf("env.variable(%q)", string(v)) }

// Vars is a chain of variables; the first that is set counts.
func Vars(names ...string) cli.ValueSourceChain {
	sources := make([]cli.ValueSource, len(names))
	for i, n := range names {
		sources[i] = variable(n)
	}
	return cli.NewValueSourceChain(sources...)
}
