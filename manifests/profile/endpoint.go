package profile

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// kubeletFiles are where a kubelet is told its runtime, those that win first: kubeadm's flags and distributions' own, then
// the configuration file (kubernetes cmd/kubelet/app/options).
func kubeletFiles(root fs.FS) []string {
	files := []string{
		"var/lib/kubelet/kubeadm-flags.env", "etc/default/kubelet", "etc/sysconfig/kubelet", "etc/systemd/system/kubelet.service",
		"usr/lib/systemd/system/kubelet.service", "lib/systemd/system/kubelet.service", "var/lib/kubelet/config.yaml",
	}
	for _, dir := range UnitDirs() {
		drops, _ := fs.Glob(root, path.Join(dir, "kubelet.service.d/*")) // none is usual
		files = append(files, drops...)
	}
	return files
}

var (
	endpoint      = regexp.MustCompile(`(?:--container-runtime-endpoint[= \x00]|containerRuntimeEndpoint: *)["']?(?:unix://)?([^\s"'\x00]+)`)
	kubeletConfig = regexp.MustCompile(`--config[= \x00]/([^\s\x00]+)`)
)

// Endpoint is the socket that the kubelet uses, as it is written there without unix://, and the file that says so. live asks
// the kubelet that runs first.
func Endpoint(root fs.FS, live bool) (socket, from string) {
	if live {
		if cmdline, from := kubelet(root); cmdline != "" {
			if m := endpoint.FindStringSubmatch(cmdline); m != nil {
				return m[1], from
			}
			if c := kubeletConfig.FindStringSubmatch(cmdline); c != nil {
				if socket := endpointIn(root, c[1]); socket != "" {
					return socket, c[1]
				}
			}
		}
	}
	for _, f := range kubeletFiles(root) {
		if socket := endpointIn(root, f); socket != "" {
			return socket, f
		}
	}
	return "", ""
}

func endpointIn(root fs.FS, file string) string {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return ""
	}
	m := endpoint.FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}

// kubelet is the command line of the kubelet that runs.
func kubelet(root fs.FS) (cmdline, from string) {
	procs, _ := fs.Glob(root, "proc/[0-9]*") // without /comm, for which Glob would list each directory
	for _, proc := range procs {
		comm, err := fs.ReadFile(root, path.Join(proc, "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != "kubelet" {
			continue
		}
		from = path.Join(proc, "cmdline")
		if b, err := fs.ReadFile(root, from); err == nil {
			return string(b), from
		}
	}
	return "", ""
}
