module github.com/sluiceio/sluice/client

go 1.26.0
