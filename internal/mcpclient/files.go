package mcpclient

import (
	"fmt"
	"mime"
	"strings"

	"github.com/axebus/axe/internal/toolset"
)

// namer turns the parts of one result into text and files.
type namer struct {
	tool  string
	files []toolset.File
}

// part returns the text of a part. A part that is no text becomes a file, and
// the text says so.
func (n *namer) part(c content) string {
	switch c.Type {
	case "text":
		return c.Text
	case "image", "audio":
		return n.file(c.MIMEType, c.Data, "")
	case "resource":
		if c.Resource.Blob != nil {
			return n.file(c.Resource.MIMEType, c.Resource.Blob, " of "+c.Resource.URI)
		}
		return fmt.Sprintf("[resource %s]\n%s", c.Resource.URI, c.Resource.Text)
	case "resource_link":
		return link(c)
	}
	return fmt.Sprintf("[a part of the type %q, which axe does not know, is left out]", c.Type)
}

// file adds a file, and returns the line that names it.
func (n *namer) file(mediaType string, data []byte, origin string) string {
	f := toolset.File{
		Name:      fmt.Sprintf("%s-%d%s", plain(n.tool), len(n.files)+1, extension(mediaType)),
		MediaType: mediaType,
		Bytes:     data,
	}
	n.files = append(n.files, f)
	if mediaType == "" {
		mediaType = "unknown type"
	}
	return fmt.Sprintf("[file %s%s: %s, %d bytes]", f.Name, origin, mediaType, len(data))
}

// link is the line about a resource that the server has.
func link(c content) string {
	line := "[link to " + c.URI
	if c.Name != "" {
		line += fmt.Sprintf(", %q", c.Name)
	}
	if c.Description != "" {
		line += ": " + c.Description
	}
	return line + "]"
}

// plain replaces everything in a tool's name that a file name cannot have.
func plain(tool string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, tool)
	return name[:min(len(name), 100)]
}

// extensions are the endings of common media types. The table of the system
// differs from host to host.
var extensions = map[string]string{
	"application/gzip":         ".gz",
	"application/json":         ".json",
	"application/octet-stream": ".bin",
	"application/pdf":          ".pdf",
	"application/xml":          ".xml",
	"application/zip":          ".zip",
	"audio/aac":                ".aac",
	"audio/flac":               ".flac",
	"audio/mp4":                ".m4a",
	"audio/mpeg":               ".mp3",
	"audio/ogg":                ".ogg",
	"audio/wav":                ".wav",
	"audio/webm":               ".weba",
	"audio/x-wav":              ".wav",
	"image/avif":               ".avif",
	"image/bmp":                ".bmp",
	"image/gif":                ".gif",
	"image/jpeg":               ".jpg",
	"image/png":                ".png",
	"image/svg+xml":            ".svg",
	"image/tiff":               ".tiff",
	"image/webp":               ".webp",
	"text/csv":                 ".csv",
	"text/html":                ".html",
	"text/markdown":            ".md",
	"text/plain":               ".txt",
	"video/mp4":                ".mp4",
	"video/webm":               ".webm",
}

// extension is the ending of files of a media type, .bin if it is not known.
func extension(mediaType string) string {
	base, _, err := mime.ParseMediaType(mediaType)
	if ext, ok := extensions[base]; ok && err == nil {
		return ext
	}
	return ".bin"
}
