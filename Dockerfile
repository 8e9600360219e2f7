# Two images: `--target plugin` delivers quiesce to a node, `--target installer` (the default) is what installer pods run.
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
ARG TARGETOS=linux TARGETARCH VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/quiesce ./plugin && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/quiesce-installer ./installer

# Root: it writes to the host's inbox, or to the host. The manifests drop every capability.
FROM scratch AS plugin
COPY --from=build /out/quiesce /out/quiesce-installer /
ENTRYPOINT ["/quiesce-installer", "host"]

FROM scratch AS installer
COPY --from=build /out/quiesce-installer /
ENTRYPOINT ["/quiesce-installer"]
