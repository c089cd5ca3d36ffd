module github.com/axebus/axe

go 1.26.0
