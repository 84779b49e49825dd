;; Skips text of JSON strings, 16 bytes at a time. Made into simd-text.generated.ts by test/unit/json/simd-text.test.ts.
(module
  ;; From byte 0: what `skip` counted, as three i32: characters that aren't ASCII, their further bytes, escapes.
  ;; From 256: for each byte, 1 if it may follow a backslash; not `u`, which four digits follow.
  ;; From 512: the text, of at most 65,536 bytes; valid UTF-8.
  (memory (export "memory") 2)
  (data (i32.const 290) "\01") ;; "
  (data (i32.const 303) "\01") ;; /
  (data (i32.const 348) "\01") ;; \
  (data (i32.const 354) "\01") ;; b
  (data (i32.const 358) "\01") ;; f
  (data (i32.const 366) "\01") ;; n
  (data (i32.const 370) "\01") ;; r
  (data (i32.const 372) "\01") ;; t

  ;; Skips text and short escapes from `at` on; returns where the first quote, control character or other escape is, or `to`.
  (func (export "skip") (param $at i32) (param $to i32) (result i32)
    (local $block v128)
    (local $stops i32)  ;; a bit for each byte of the block that isn't text
    (local $high i32)   ;; a bit for each byte that isn't ASCII
    (local $length i32)
    (local $highBytes i32)
    (local $furtherBytes i32)
    (local $escapes i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $to)))
        (local.set $block (v128.load (local.get $at)))
        (local.set $stops
          (i8x16.bitmask
            (v128.or
              (v128.or
                (i8x16.eq (local.get $block) (i8x16.splat (i32.const 0x22)))
                (i8x16.eq (local.get $block) (i8x16.splat (i32.const 0x5c))))
              (i8x16.lt_u (local.get $block) (i8x16.splat (i32.const 0x20))))))
        ;; What lies behind `to` is not text.
        (local.set $length (i32.sub (local.get $to) (local.get $at)))
        (if (i32.lt_u (local.get $length) (i32.const 16))
          (then
            (local.set $stops (i32.or (local.get $stops) (i32.shl (i32.const -1) (local.get $length))))))
        (local.set $high (i8x16.bitmask (local.get $block)))
        (if (local.get $stops)
          (then
            (local.set $length (i32.ctz (local.get $stops)))
            (local.set $high
              (i32.and
                (local.get $high)
                (i32.sub (i32.shl (i32.const 1) (local.get $length)) (i32.const 1)))))
          (else (local.set $length (i32.const 16))))
        (if (local.get $high)
          (then
            (local.set $highBytes (i32.add (local.get $highBytes) (i32.popcnt (local.get $high))))
            ;; Further bytes of a character are 0x80 to 0xbf: as signed numbers, the least.
            (local.set $furtherBytes
              (i32.add
                (local.get $furtherBytes)
                (i32.popcnt
                  (i32.and
                    (local.get $high)
                    (i8x16.bitmask
                      (i8x16.lt_s (local.get $block) (i8x16.splat (i32.const 0xc0))))))))))
        (local.set $at (i32.add (local.get $at) (local.get $length)))
        (br_if $next (i32.eqz (local.get $stops)))
        ;; A backslash, and a byte that may follow it?
        (br_if $done (i32.ge_u (i32.add (local.get $at) (i32.const 1)) (local.get $to)))
        (br_if $done (i32.ne (i32.load8_u (local.get $at)) (i32.const 0x5c)))
        (br_if $done (i32.eqz (i32.load8_u offset=256 (i32.load8_u offset=1 (local.get $at)))))
        (local.set $escapes (i32.add (local.get $escapes) (i32.const 1)))
        (local.set $at (i32.add (local.get $at) (i32.const 2)))
        (br $next)))
    (i32.store (i32.const 0) (i32.sub (local.get $highBytes) (local.get $furtherBytes)))
    (i32.store (i32.const 4) (local.get $furtherBytes))
    (i32.store (i32.const 8) (local.get $escapes))
    (local.get $at)))
