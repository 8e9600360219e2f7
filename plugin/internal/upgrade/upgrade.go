// Package upgrade tells whether a package manager or snapd is changing packages right now.
//
// Their scripts stop and start services; such a stop is a restart in two parts, and no reason to stop a pod.
package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Locks are the files that dpkg, apt and rpm lock while they work (fcntl(2) record locks), below root.
func locks() map[string]string {
	return map[string]string{
		"/var/lib/dpkg/lock":              "dpkg",
		"/var/lib/dpkg/lock-frontend":     "apt or dpkg",
		"/var/lib/rpm/.rpm.lock":          "rpm",
		"/usr/lib/sysimage/rpm/.rpm.lock": "rpm",
	}
}

const snapd = "/run/snapd.socket"

// Running names who is at work; empty: nobody.
func Running(ctx context.Context) string {
	for file, who := range locks() {
		if pid := holder(file); pid != 0 {
			return fmt.Sprintf("%s (PID %d holds %s)", who, pid, file)
		}
	}
	if what := snapChange(ctx, snapd); what != "" {
		return "snapd: " + what
	}
	return ""
}

// holder is the PID of the process that has locked a file; 0: none. It is -1 for one of another PID namespace.
func holder(file string) int {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil || l.Type == syscall.F_UNLCK {
		return 0
	}
	if l.Pid == 0 {
		return -1
	}
	return int(l.Pid)
}

// snapChange asks snapd for a change that stops and starts services again (snapd REST API, /v2/changes).
func snapChange(ctx context.Context, socket string) string {
	if _, err := os.Stat(socket); err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v2/changes?select=in-progress", nil)
	if err != nil {
		return ""
	}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var answer struct {
		Result []struct {
			Kind    string `json:"kind"`
			Summary string `json:"summary"`
			Ready   bool   `json:"ready"`
		} `json:"result"`
	}
	if json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 4<<20)).Decode(&answer) != nil {
		return ""
	}
	for _, c := range answer.Result {
		kinds := []string{"refresh", "install", "revert", "auto-refresh", "configure", "connect", "update"}
		if !c.Ready && slices.ContainsFunc(kinds, func(k string) bool { return strings.Contains(c.Kind, k) }) {
			return c.Summary
		}
	}
	return ""
}
