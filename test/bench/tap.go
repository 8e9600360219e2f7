package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"quiesce/test/bench/measure"
	"quiesce/test/lab"
)

// Sockets in the node.
const (
	nriSocket = "/run/nri/nri.sock"
	tapSocket = "/run/tap.sock"
)

// tap stands between a plugin and the runtime, passes everything on, and notes how long the plugin takes for each answer.
//
// NRI multiplexes two ttrpc connections: a frame is a connection's number and a length, 4 bytes each, then what belongs to
// the connection (containerd/nri pkg/net/multiplex). A ttrpc message is a length, a stream's number, 4 bytes each, a type
// and flags, then the payload (containerd/ttrpc channel.go). The runtime calls on connection 1.
type tap struct {
	listener net.Listener
	runtime  string

	mu    sync.Mutex
	asked map[uint32]time.Time
	took  measure.Series // µs
}

const (
	pluginConn   = 1
	frameHeader  = 8
	ttrpcHeader  = 10
	typeRequest  = 1
	typeResponse = 2
)

func listen(l *lab.Lab) (*tap, error) {
	listener, err := net.Listen("unix", l.Path(tapSocket))
	if err != nil {
		return nil, err
	}
	t := &tap{listener: listener, runtime: l.Path(nriSocket), asked: map[uint32]time.Time{}}
	go t.serve()
	return t, nil
}

func (t *tap) close() { _ = t.listener.Close() }

// take returns what was measured since the last time.
func (t *tap) take() measure.Series {
	t.mu.Lock()
	defer t.mu.Unlock()
	took := t.took
	t.took, t.asked = nil, map[uint32]time.Time{}
	return took
}

func (t *tap) serve() {
	for {
		plugin, err := t.listener.Accept()
		if err != nil {
			return
		}
		runtime, err := net.Dial("unix", t.runtime)
		if err != nil {
			_ = plugin.Close()
			continue
		}
		go pass(plugin, runtime, &stream{kind: typeRequest, note: t.request})
		go pass(runtime, plugin, &stream{kind: typeResponse, note: t.response})
	}
}

func (t *tap) request(stream uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[stream] = time.Now()
}

func (t *tap) response(stream uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if began, ok := t.asked[stream]; ok {
		t.took = append(t.took, float64(time.Since(began).Nanoseconds())/1000)
		delete(t.asked, stream)
	}
}

// pass copies and lets s see what it copies: a request once it is passed on, an answer as soon as it is there.
func pass(to, from net.Conn, s *stream) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			if s.kind == typeRequest {
				_, err = to.Write(buf[:n])
				s.see(buf[:n])
			} else {
				s.see(buf[:n])
				_, err = to.Write(buf[:n])
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			_ = to.Close()
			return
		}
	}
}

// stream finds the messages in one direction.
type stream struct {
	kind byte
	note func(stream uint32)

	frames   []byte // not yet a whole frame
	messages []byte // of the plugin's connection, not yet a whole message
}

func (s *stream) see(b []byte) {
	s.frames = append(s.frames, b...)
	for len(s.frames) >= frameHeader {
		n := int(binary.BigEndian.Uint32(s.frames[4:]))
		if len(s.frames) < frameHeader+n {
			return
		}
		if binary.BigEndian.Uint32(s.frames) == pluginConn {
			s.messages = append(s.messages, s.frames[frameHeader:frameHeader+n]...)
		}
		s.frames = s.frames[frameHeader+n:]
		s.cut()
	}
}

func (s *stream) cut() {
	for len(s.messages) >= ttrpcHeader {
		n := int(binary.BigEndian.Uint32(s.messages))
		if len(s.messages) < ttrpcHeader+n {
			return
		}
		if s.messages[8] == s.kind {
			s.note(binary.BigEndian.Uint32(s.messages[4:]))
		}
		s.messages = s.messages[ttrpcHeader+n:]
	}
}
