// Command victim is the process of the containers in the drain tests: it writes down what happens to it, one JSON
// object a line, and ends as its flags say.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type options struct {
	log    string
	after  time.Duration
	code   int
	deaf   bool
	listen string
	peer   string
}

// event is a line of the log.
type event struct {
	At   time.Time
	What string
	Err  string `json:",omitempty"`
}

func main() {
	var o options
	flag.StringVar(&o.log, "log", "/dev/null", "log file")
	flag.DurationVar(&o.after, "after", 0, "time from the first signal to the exit")
	flag.IntVar(&o.code, "code", 0, "exit code")
	flag.BoolVar(&o.deaf, "deaf", false, "ignore signals")
	flag.StringVar(&o.listen, "listen", "", "serve HTTP here; every request is an event")
	flag.StringVar(&o.peer, "peer", "", "ask this address after the signal, until the exit")
	hook := flag.String("hook", "", "write this event and exit")
	flag.Parse()
	f, err := os.OpenFile(o.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(125)
	}
	if *hook != "" {
		write(f, *hook, nil)
		return
	}
	os.Exit(run(o, f))
}

func write(f *os.File, what string, err error) {
	e := event{At: time.Now(), What: what}
	if err != nil {
		e.Err = err.Error()
	}
	b, _ := json.Marshal(e)
	_, _ = f.Write(append(b, '\n'))
	_ = f.Sync()
}

func run(o options, f *os.File) int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGQUIT)
	write(f, "start", nil)
	if o.listen != "" {
		l, err := net.Listen("tcp", o.listen)
		if err != nil {
			write(f, "listen", err)
			return 125
		}
		go serve(l, f)
	}
	var end <-chan time.Time
	for {
		select {
		case s := <-signals:
			write(f, s.String(), nil)
			if end == nil && !o.deaf {
				end = time.After(o.after)
			}
		case <-end:
			if o.peer != "" {
				write(f, "last words", ask(o.peer))
			}
			write(f, "exit", nil)
			return o.code
		}
	}
}

func serve(l net.Listener, f *os.File) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ping" {
			write(f, "http "+r.URL.Path+" "+r.Header.Get("X-Quiesce"), nil)
		}
		_, _ = w.Write([]byte("ok"))
	})
	_ = (&http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			write(f, "connection", nil)
		}
	}}).Serve(l)
}

// ask is what a pod does that writes its last record over the network.
func ask(peer string) error {
	c := &http.Client{Timeout: 2 * time.Second}
	r, err := c.Get("http://" + strings.TrimPrefix(peer, "http://") + "/last")
	if err != nil {
		return err
	}
	return r.Body.Close()
}
