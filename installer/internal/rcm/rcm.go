// Package rcm accepts the invocation of other installers, so that the image of their Jobs is all there is to change.
//
// Jobs of runtime-class-manager (and of kwasm before it) run
//
//	install   -H /mnt/node-root -r NAME     env HOST_ROOT=/mnt/node-root RUNTIME_OPTIONS={"KEY":"VALUE"}
//	uninstall -H /mnt/node-root -r NAME
//
// with the node's root mounted at HOST_ROOT and, for install, /assets/containerd-shim-NAME from an init container.
// NAME is the handler too. Their installers also read flags from RCM_FLAG or KWASM_FLAG.
package rcm

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/env"
	"quiesce/plugin/stage"
)

// Assets is where those Jobs have the shim.
const Assets = "/assets"

// Env lists the variables that a flag may come from: our own, then theirs.
func Env(theirs string, own ...string) cli.ValueSourceChain {
	return env.Vars(append(own, "RCM_"+theirs, "KWASM_"+theirs)...)
}

// Flags are those that every verb of theirs has and that mean something here, or nothing.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "host-root", Aliases: []string{"H"}, Usage: "the node's root is mounted at `DIR`: the inbox is below it", Sources: Env("HOST_ROOT", "QUIESCE_HOST_ROOT", "HOST_ROOT")},
		&cli.StringFlag{Name: "runtime-config", Aliases: []string{"c"}, Usage: "ignored: apply finds containerd's config", Hidden: true},
		&cli.StringFlag{Name: "rcm-path", Aliases: []string{"kwasm-path", "k"}, Usage: "ignored: shims go below /opt/quiesce", Hidden: true},
	}
}

// Inbox is the inbox to use: the one that is named, else the one below the node's root.
func Inbox(named, hostRoot string) string {
	return cmp.Or(named, filepath.Join(cmp.Or(hostRoot, "/"), stage.DefaultDir, "inbox"))
}

// Shim is where the shim is if no one says: in /assets, if there is such a directory or the Job is one of theirs.
func Shim(named, hostRoot string) string {
	if named == "" && hostRoot == "" {
		if _, err := os.Stat(Assets); err != nil {
			return ""
		}
	}
	return cmp.Or(named, Assets)
}
