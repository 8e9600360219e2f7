package nri

import (
	"context"

	"github.com/sirupsen/logrus"
)

// logger gives the stub's messages to ours, one level lower: it reports every step of a connection.
type logger struct{ to *logrus.Entry }

func (l logger) Debugf(_ context.Context, f string, a ...any) { l.to.Tracef(f, a...) }
func (l logger) Infof(_ context.Context, f string, a ...any)  { l.to.Debugf(f, a...) }
func (l logger) Warnf(_ context.Context, f string, a ...any)  { l.to.Debugf(f, a...) }
func (l logger) Errorf(_ context.Context, f string, a ...any) { l.to.Debugf(f, a...) }
