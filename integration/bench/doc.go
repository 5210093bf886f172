// Package bench measures Sluice beside the bare disk and Apache Kafka, all in
// one run on one machine: what counts are the ratios.
//
//	make bench                                     everything
//	make bench ARGS="-bench Engine"                one group of rows
//	make bench ARGS="-benchtime 10s"               longer windows; 3s if not given
//
// Each row is one window of -benchtime, after a warm-up. The table is printed at
// the end, as Markdown, and written to the file that BENCH_OUT names.
package bench
