package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hook is a preStop handler as the kubelet writes it into a container's annotation. One of its parts is set.
type Hook struct {
	Exec  []string      `json:"exec,omitempty"`
	HTTP  *HTTPGet      `json:"http,omitempty"`
	TCP   string        `json:"tcp,omitempty"` // host:port; an empty host is the pod's
	Sleep time.Duration `json:"sleep,omitempty"`
}

// HTTPGet is a request of a hook.
type HTTPGet struct {
	Scheme string      `json:"scheme"`
	Host   string      `json:"host,omitempty"` // empty: the pod's
	Port   string      `json:"port"`
	Path   string      `json:"path"`
	Header [][2]string `json:"header,omitempty"`
}

// String names the kind.
func (h *Hook) String() string {
	switch {
	case len(h.Exec) > 0:
		return "exec " + strings.Join(h.Exec, " ")
	case h.HTTP != nil:
		return "httpGet " + h.HTTP.Port + h.HTTP.Path
	case h.TCP != "":
		return "tcpSocket " + h.TCP
	default:
		return "sleep " + h.Sleep.String()
	}
}

// handler is v1.LifecycleHandler of k8s.io/api/core/v1.
type handler struct {
	Exec *struct {
		Command []string `json:"command"`
	} `json:"exec"`
	HTTPGet *struct {
		Path        string          `json:"path"`
		Port        json.RawMessage `json:"port"`
		Host        string          `json:"host"`
		Scheme      string          `json:"scheme"`
		HTTPHeaders []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"httpHeaders"`
	} `json:"httpGet"`
	TCPSocket *struct {
		Port json.RawMessage `json:"port"`
		Host string          `json:"host"`
	} `json:"tcpSocket"`
	Sleep *struct {
		Seconds int64 `json:"seconds"`
	} `json:"sleep"`
}

// parseHook reads the annotation; nil if there is none.
func parseHook(text, ports string) (*Hook, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no hook is nothing
	}
	var l handler
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("read hook: %w", err)
	}
	switch {
	case l.Exec != nil && len(l.Exec.Command) > 0:
		return &Hook{Exec: l.Exec.Command}, nil
	case l.HTTPGet != nil:
		port, err := parsePort(l.HTTPGet.Port, ports)
		if err != nil {
			return nil, err
		}
		h := &HTTPGet{Scheme: strings.ToLower(l.HTTPGet.Scheme), Host: l.HTTPGet.Host, Port: port, Path: "/" + strings.TrimPrefix(l.HTTPGet.Path, "/")}
		if h.Scheme == "" {
			h.Scheme = "http"
		}
		for _, kv := range l.HTTPGet.HTTPHeaders {
			h.Header = append(h.Header, [2]string{kv.Name, kv.Value})
		}
		return &Hook{HTTP: h}, nil
	case l.TCPSocket != nil:
		port, err := parsePort(l.TCPSocket.Port, ports)
		if err != nil {
			return nil, err
		}
		return &Hook{TCP: l.TCPSocket.Host + ":" + port}, nil
	case l.Sleep != nil:
		if s := l.Sleep.Seconds; s < 0 || s > int64(24*time.Hour/time.Second) {
			return nil, fmt.Errorf("read hook: it sleeps for %d seconds", s)
		}
		return &Hook{Sleep: time.Duration(l.Sleep.Seconds) * time.Second}, nil
	}
	return nil, errors.New("read hook: it has no action")
}

// parsePort reads a number, or the name of one of the container's ports.
func parsePort(raw json.RawMessage, ports string) (string, error) {
	name := strings.Trim(string(raw), `"`)
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && n > 0 {
		return name, nil
	}
	var declared []struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
	}
	if ports != "" {
		if err := json.Unmarshal([]byte(ports), &declared); err != nil {
			return "", fmt.Errorf("read ports: %w", err)
		}
	}
	for _, p := range declared {
		if p.Name == name && name != "" {
			return strconv.Itoa(p.ContainerPort), nil
		}
	}
	return "", fmt.Errorf("read hook: port %q is no number and no port of the container", name)
}
