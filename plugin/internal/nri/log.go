package nri

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// queue takes log lines from callbacks: no callback waits for a log that stands still. What does not fit is dropped.
type queue struct {
	to    *logrus.Entry
	lines chan line
}

type line struct {
	level  logrus.Level
	text   string
	fields logrus.Fields
}

func newQueue(to *logrus.Entry) *queue { return &queue{to: to, lines: make(chan line, 256)} }

// startQueue starts a queue that writes until end is called.
func startQueue(ctx context.Context) (q *queue, end func()) {
	q = newQueue(log.G(ctx))
	logged, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writing sync.WaitGroup
	writing.Go(func() { q.run(logged) })
	return q, func() {
		stop()
		writing.Wait()
	}
}

func (q *queue) put(level logrus.Level, fields logrus.Fields, text string) {
	select {
	case q.lines <- line{level, text, fields}:
	default:
	}
}

// run writes until ctx ends, and then what is left.
func (q *queue) run(ctx context.Context) {
	for {
		select {
		case l := <-q.lines:
			q.to.WithFields(l.fields).Log(l.level, l.text)
		case <-ctx.Done():
			for len(q.lines) > 0 {
				l := <-q.lines
				q.to.WithFields(l.fields).Log(l.level, l.text)
			}
			return
		}
	}
}

// logger gives the stub's messages to ours, one level lower: it reports every step of a connection.
type logger struct{ to *queue }

func (l logger) at(level logrus.Level, f string, a []any) {
	if l.to.to.Logger.IsLevelEnabled(level) {
		l.to.put(level, nil, fmt.Sprintf(f, a...))
	}
}

func (l logger) Debugf(_ context.Context, f string, a ...any) { l.at(logrus.TraceLevel, f, a) }
func (l logger) Infof(_ context.Context, f string, a ...any)  { l.at(logrus.DebugLevel, f, a) }
func (l logger) Warnf(_ context.Context, f string, a ...any)  { l.at(logrus.DebugLevel, f, a) }
func (l logger) Errorf(_ context.Context, f string, a ...any) { l.at(logrus.DebugLevel, f, a) }
