# syntax=docker/dockerfile:1
#
#   docker build -t metarouter .                     the program alone: 57 MB, for remote and bundled servers
#   docker build -t metarouter:node --target node .  with Node and uv, for servers that npx and uvx start
#
# Over HTTP. Clients need a token, because a container's clients come from other addresses
# than loopback:
#
#   docker run --init -p 127.0.0.1:8787:8787 -e METAROUTER_TOKEN=… -v ./mcp:/config:ro metarouter
#
# Over stdio, as the command of a client's entry:
#
#   docker run --init -i --rm -v ./mcp:/config:ro metarouter serve --config /config/mcp.json
#
# Mount the folder with mcp.json, not the file: editors replace files, and a mounted file
# would stay the old one. --init reaps processes that servers leave.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=0.1.0-dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.released=$VERSION" -o /out/usr/bin/metarouter ./cmd/metarouter
RUN mkdir -p /out/etc/ssl/certs /out/config /out/home/metarouter /out/tmp \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && echo 'metarouter:x:65532:65532::/home/metarouter:/usr/bin/metarouter' > /out/etc/passwd \
 && echo 'metarouter:x:65532:' > /out/etc/group \
 && chown 65532:65532 /out/home/metarouter && chmod 700 /out/home/metarouter && chmod 1777 /out/tmp

FROM node:22-bookworm-slim AS node
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git python3 python3-pip python3-venv \
 && pip3 install --no-cache-dir --break-system-packages uv \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir /config
COPY --from=build /out/usr/bin/metarouter /usr/bin/metarouter
USER node
WORKDIR /home/node
EXPOSE 8787
HEALTHCHECK --start-period=30s --interval=30s --timeout=6s CMD ["/usr/bin/metarouter", "health"]
ENTRYPOINT ["/usr/bin/metarouter"]
CMD ["serve", "--http", "0.0.0.0:8787", "--config", "/config/mcp.json"]

FROM scratch
COPY --from=build /out /
ENV HOME=/home/metarouter PATH=/usr/bin
USER 65532:65532
WORKDIR /home/metarouter
EXPOSE 8787
HEALTHCHECK --start-period=10s --interval=30s --timeout=6s CMD ["/usr/bin/metarouter", "health"]
ENTRYPOINT ["/usr/bin/metarouter"]
CMD ["serve", "--http", "0.0.0.0:8787", "--config", "/config/mcp.json"]
