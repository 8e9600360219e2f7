package lab

import (
	"fmt"

	"quiesce/test/node"
)

// InstallPod is an installer pod as quiesce wants it: a Job's, with write access to the inbox only. Before it stages it
// waits for wait seconds, and afterwards it stays for stay seconds.
func InstallPod(job, handler string, wait, stay int, args ...string) node.Pod {
	return installerPod(job, wait, stay, fmt.Sprintf("/quiesce-installer install --handler %s --shim /assets/containerd-shim-%s", handler, handler), args)
}

// UninstallPod is its counterpart.
func UninstallPod(job string, handler string, args ...string) node.Pod {
	return installerPod(job, 0, 0, "/quiesce-installer uninstall --handler "+handler, args)
}

func installerPod(job string, wait, stay int, command string, args []string) node.Pod {
	for _, a := range args {
		command += fmt.Sprintf(" '%s'", a)
	}
	c := node.Shell(fmt.Sprintf("sleep %d; %s || exit $?; sleep %d", wait, command, stay))
	c.Image = InstallerImage
	c.Env = map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "POD_NAME": job, "POD_NAMESPACE": "kube-system"}
	c.Mounts = []node.Mount{{Host: Inbox, Container: Inbox}}
	return node.Pod{Namespace: "kube-system", Name: job, Labels: node.JobLabels(job), Containers: []node.Container{c}}
}

// ReportedPod is the pod of a Job of runtime-class-manager or kwasm: no labels but the Job controller's, a downloader
// that mounts nothing of the host, and a provisioner that mounts all of it. image and script are the provisioner's;
// without a script it is called as those Jobs call it.
func ReportedPod(job, image, verb, shim, script string, downloads int) node.Pod {
	assets := node.Mount{Host: "/var/lib/kubelet/pods/" + job + "/volumes/kubernetes.io~empty-dir/shim-download-assets", Container: "/assets"}
	downloader := node.Shell(fmt.Sprintf("sleep %d; cp /shims/containerd-shim-%s /assets/", downloads, shim))
	downloader.Name, downloader.Image, downloader.Privileged = "downloader", InstallerImage, true
	downloader.Mounts = []node.Mount{assets}
	downloader.Env = map[string]string{"SHIM_NAME": shim, "SHIM_LOCATION": "https://example.invalid/shim.tar.gz"}
	p := node.Container{
		Name: "provisioner", Image: image, Args: []string{verb, "-H", "/mnt/node-root", "-r", shim},
		Env: map[string]string{"HOST_ROOT": "/mnt/node-root"}, Privileged: true,
		Mounts: []node.Mount{{Host: "/", Container: "/mnt/node-root"}, assets},
	}
	if script != "" {
		p.Command, p.Args = []string{"sh", "-c", script}, nil
	}
	return node.Pod{
		Namespace: "default", Name: job, Labels: node.JobLabels(job), HostPID: true,
		InitContainers: []node.Container{downloader}, Containers: []node.Container{p},
	}
}

// Provision is what the provisioner of a reported Job does by itself: shim and config onto the host, SIGHUP to containerd.
func Provision(shim string) string {
	return fmt.Sprintf(`set -e
mkdir -p /mnt/node-root/opt/kwasm/bin
cp /assets/containerd-shim-%[1]s /mnt/node-root/opt/kwasm/bin/
cat >>/mnt/node-root/etc/containerd/config.toml <<EOF

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.%[1]s]
  runtime_type = "/opt/kwasm/bin/containerd-shim-%[1]s"
EOF
kill -HUP $(pidof containerd)
sleep 1`, shim)
}

// HandlerPod runs one script with a handler.
func HandlerPod(name, handler, script string) node.Pod {
	return node.Pod{Namespace: "default", Name: name, Handler: handler, Containers: []node.Container{node.Shell(script)}}
}
