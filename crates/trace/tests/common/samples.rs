//! Every text format in a few handmade lines, their requests, and lines that are malformed.

use seekless_core::{Op, Record};
use seekless_trace::ReadOptions;
use seekless_trace::format::Format;

/// Time in nanoseconds, device, operation, first sector, sectors.
pub type Row = (u64, u32, Op, u64, u64);

pub fn row(record: &Record) -> Row {
    (record.time.0, record.device, record.op, record.extent.start.0, record.extent.sectors)
}

/// A trace in a text format.
pub struct Sample {
    /// Name of the format.
    pub format: &'static str,
    pub content: &'static str,
    /// Requests.
    pub rows: &'static [Row],
    /// A line that could follow, except for its time: it is negative.
    pub negative: &'static str,
    /// A line that could follow, with `{size}` for its size.
    pub sized: &'static str,
}

impl Sample {
    /// The first one of this format.
    pub fn of(format: &str) -> &'static Sample {
        SAMPLES.iter().find(|sample| sample.format == format).unwrap()
    }

    /// Options for what its content does not give.
    pub fn options(&self) -> ReadOptions {
        let columns = (self.format == "blkparse-f").then(|| "%D %T.%t %p %d %S %n %C\\n".parse().unwrap());
        ReadOptions { format: Some(Format::named(self.format).unwrap()), columns, ..ReadOptions::default() }
    }

    /// Content, without blkparse's final summary, where reading stops.
    pub fn lines(&self) -> &'static str {
        self.content.split("CPU0 ").next().unwrap()
    }
}

/// At least one of every text format.
pub const SAMPLES: &[Sample] = &[
    Sample {
        format: "msr",
        content: "128166372003061629,web,1,Write,10240,4096,52\n128166372003061634,db,0,Read,100,600,9\n",
        rows: &[(0, 0, Op::Write, 20, 8), (500, 1, Op::Read, 0, 2)],
        negative: "-5,web,1,Write,10240,4096,52",
        sized: "128166372003061640,web,1,Write,10240,{size},52",
    },
    Sample {
        format: "fiu",
        content: "100 7 a/b 64 8 W 6 0 0123456789abcdef\n90 8 sh 0 16 R 6 0 0123456789abcdef\n",
        rows: &[(0, 6 << 20, Op::Read, 0, 16), (10, 6 << 20, Op::Write, 64, 8)],
        negative: "-5 7 a/b 64 8 W 6 0 0123456789abcdef",
        sized: "101 7 a/b 64 {size} W 6 0 0123456789abcdef",
    },
    Sample {
        format: "borg",
        content: "700000000 57 screen 6914 32 R\n764000000 58 sh 2437 8 W\n",
        rows: &[(0, 0, Op::Read, 6_914, 32), (64_000_000, 0, Op::Write, 2_437, 8)],
        negative: "-5 58 sh 2437 8 W",
        sized: "765000000 58 sh 2437 {size} W",
    },
    Sample {
        format: "fio",
        content: "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 4096 512\n/dev/x wait 150 0\n\
         /dev/x write 0 4096\n/dev/y trim 0 1024\n/dev/x wait 200 0\n/dev/x datasync 0 0\n/dev/x close\n",
        rows: &[
            (0, 0, Op::Read, 8, 1),
            (150_000, 0, Op::Write, 0, 8),
            (150_000, 1, Op::Discard, 0, 2),
            (350_000, 0, Op::Flush, 0, 0),
        ],
        negative: "/dev/x wait -5 0",
        sized: "/dev/x read 4096 {size}",
    },
    Sample {
        format: "fio",
        content: "fio version 3 iolog\n0 /dev/x add\n5 /dev/x open\n7 /dev/x read 0 512\n9 /dev/x sync\n",
        rows: &[(0, 0, Op::Read, 0, 1), (2_000, 0, Op::Flush, 0, 0)],
        negative: "-5 /dev/x read 0 512",
        sized: "9 /dev/x read 0 {size}",
    },
    Sample {
        format: "spc",
        content: "0,303567,3584,w,0.026214\n1, 12 ,512, R ,0.026682,extra\n",
        rows: &[(0, 0, Op::Write, 303_567, 7), (468_000, 1, Op::Read, 12, 1)],
        negative: "0,8,512,r,-0.5",
        sized: "0,8,{size},r,0.5",
    },
    Sample {
        format: "blkreplay",
        content: "Made by hand.\n\nstart ; sector; length ; op\n 0.5 ; 64 ; 8 ; R ; 0.0 ; 0.0\n0.500000001 ; 8 ; 0 ; W\n0.6;16;8;RA\n",
        rows: &[(0, 0, Op::Read, 64, 8), (1, 0, Op::Flush, 0, 0), (100_000_000, 0, Op::Read, 16, 8)],
        negative: "-0.6;16;8;R",
        sized: "0.7;16;{size};R",
    },
    Sample {
        format: "alibaba",
        content: "419,W,8192,4096,1577808144000360\n725,R,512,512,1577808144000361\n",
        rows: &[(0, 419, Op::Write, 16, 8), (1_000, 725, Op::Read, 1, 1)],
        negative: "1,W,0,4096,-5",
        sized: "1,W,0,{size},1577808144000362",
    },
    Sample {
        format: "tencent",
        content: "1538323200,100,8,0,3\n1538323200,200,16,1,4\n1538323201,300,8,0,3\n",
        rows: &[
            (0, 3, Op::Read, 100, 8),
            (500_000_000, 4, Op::Write, 200, 16),
            (1_000_000_000, 3, Op::Read, 300, 8),
        ],
        negative: "-5,100,8,0,3",
        sized: "1538323202,100,{size},0,3",
    },
    Sample {
        format: "systor17",
        content: "Timestamp,Response,IOType,LUN,Offset,Size\n1455592511.5,0.1,R,2,1024,512\n1455592511.75,,W,0,0,4096\n",
        rows: &[(0, 2, Op::Read, 2, 1), (250_000_000, 0, Op::Write, 0, 8)],
        negative: "-5,0.1,R,2,1024,512",
        sized: "1455592512,0.1,R,2,1024,{size}",
    },
    Sample {
        format: "cloudphysics",
        content: "version,time,op,size,lbn\n1,5,2a,512,7\n1,5,88,4096,80\n1,6,35,0,0\n1,6,12,36,0\n",
        rows: &[
            (0, 0, Op::Write, 7, 1),
            (500_000_000, 0, Op::Read, 80, 8),
            (1_000_000_000, 0, Op::Flush, 0, 0),
        ],
        negative: "1,-5,2a,512,7",
        sized: "1,7,2a,{size},7",
    },
    Sample {
        format: "disksim",
        content: "1.5 3 100 8 1\n2.25 4 512 16 10\n",
        rows: &[(0, 3, Op::Read, 100, 8), (750_000, 4, Op::Write, 512, 16)],
        negative: "-5 3 100 8 1",
        sized: "3.5 3 100 {size} 1",
    },
    Sample {
        format: "byte-ascii",
        content: "0.000 0 4096 512 1\n0.001 0 512 4096 0\n",
        rows: &[(0, 0, Op::Read, 8, 1), (1_000, 0, Op::Write, 1, 8)],
        negative: "-5 0 4096 512 1",
        sized: "0.002 0 4096 {size} 1",
    },
    Sample {
        format: "mqsim",
        content: "938513000 4 264 16 0\n938513007 3 8 8 1\n",
        rows: &[(0, 4, Op::Write, 264, 16), (7, 3, Op::Read, 8, 8)],
        negative: "-5 4 264 16 0",
        sized: "938513008 4 264 {size} 0",
    },
    Sample {
        format: "blkparse",
        content: "  8,0    1        1     0.000000000   697  Q   R 64 + 8 [a b/c:1]\n\
         \x20 8,0    1        2     0.000000100   697  D   R 64 + 8 [a b/c:1]\n\
         \x20 8,0    1        3     0.000000200     0  C   R 64 + 8 [0]\n\
         \x20 8,0    1        4     0.000000300    12  Q FWFSM 128 + 16 [jbd2/sda-8]\n\
         \x20 8,0    1        0     0.000000350     0  m   N cfq697 anything\n\
         \x20 8,0    1        5     0.000000400    12  Q FWS [jbd2/sda-8]\n\
         \x20 8,0    1        6     0.000000500    12  Q   N 0 (12 00 00) [smartd]\n\
         CPU0 (8,0):\n Reads Queued:           1,        4KiB\n",
        rows: &[
            (0, 8 << 20, Op::Read, 64, 8),
            (300, 8 << 20, Op::Write, 128, 16),
            (400, 8 << 20, Op::Flush, 0, 0),
        ],
        negative: "8,0 1 7 -1.000000000 697 Q R 64 + 8 [a]",
        sized: "8,0 1 7 0.000000600 697 Q R 64 + {size} [a]",
    },
    Sample {
        format: "biosnoop",
        content: "TIME(s)     COMM  PID  DISK  T SECTOR  BYTES  LAT(ms)\n\
            0.000000    a b   7    vda   W 64      4096   0.50\n0.001000    sh    8    vdb   R 8       512    0.25\n",
        rows: &[(0, 0, Op::Write, 64, 8), (1_250_000, 1, Op::Read, 8, 1)],
        negative: "-1 sh 8 vdb R 8 512 0.25",
        sized: "0.5 sh 8 vdb R 8 {size} 0.25",
    },
    Sample {
        format: "disksim-validate",
        content: "W Hit 4583176 4 663.0 45422.0\nR Miss 8 2 100.25 50.5\n",
        rows: &[(0, 0, Op::Write, 4_583_176, 4), (45_422_000, 0, Op::Read, 8, 2)],
        negative: "R Hit 8 2 100 -5",
        sized: "R Hit 8 {size} 100 50",
    },
    Sample {
        format: "blkparse-f",
        content: "8,0 0.000000100 7 WS 64 8 a b\n8,0 1.000000000 9 R 8 16 sh\n",
        rows: &[(0, 8 << 20, Op::Write, 64, 8), (999_999_900, 8 << 20, Op::Read, 8, 16)],
        negative: "8,0 -1.000000000 9 R 8 16 sh",
        sized: "8,0 2.000000000 9 R 8 {size} sh",
    },
];
