module github.com/sluiceio/sluice/services/storage

go 1.26.0
