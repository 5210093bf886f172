module github.com/sluiceio/sluice/services/gateway

go 1.26.0
