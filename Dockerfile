# Two images: `--target plugin` brings quiesce to a node, `--target installer` (the default) is what installer pods run.
# For another architecture: --platform linux/arm64; the build itself always runs on the builder's own.
ARG GO_IMAGE=docker.io/library/golang:1.26
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
ARG TARGETOS=linux TARGETARCH VERSION=dev GOPROXY=https://proxy.golang.org,direct
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod GOMODCACHE=/go/pkg/mod go mod download
COPY manifests manifests
COPY installer installer
COPY plugin plugin
ENV GOMODCACHE=/go/pkg/mod GOCACHE=/root/.cache/go-build GOFLAGS=-buildvcs=false CGO_ENABLED=0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export GOOS=$TARGETOS GOARCH=$TARGETARCH && \
    go build -trimpath -tags grpcnotrace,urfave_cli_no_template -ldflags "-s -w -X main.version=$VERSION" -o /out/quiesce ./plugin && \
    go build -trimpath -tags grpcnotrace,urfave_cli_no_template -ldflags "-s -w -X main.version=$VERSION" -o /out/quiesce-installer ./installer

# Both run as root unless the manifest says otherwise: the inbox and the node's files are root's. Neither needs a capability,
# and the Job that only waits for a result runs as anybody.
FROM scratch AS plugin
COPY --from=build /out/quiesce /out/quiesce-installer /
USER 0:0
ENTRYPOINT ["/quiesce-installer"]
CMD ["host", "--root", "/host", "--running", "--keep", "10m"]

FROM scratch AS installer
COPY --from=build /out/quiesce-installer /
USER 0:0
ENTRYPOINT ["/quiesce-installer"]
