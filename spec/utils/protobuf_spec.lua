-- Tests tlua.utils.protobuf with messages whose bytes are given in the manual of Protocol Buffers.

local protobuf = require "tlua.utils.protobuf"

describe("protocol buffers", function()
   it("encode fields to the manual's bytes", function()
      assert.equal("\x08\x96\x01", protobuf.int(1, 150))
      assert.equal("\x12\x07testing", protobuf.bytes(2, "testing"))
      assert.equal("\x08" .. ("\xff"):rep(9) .. "\x01", protobuf.int(1, -1))
      assert.equal("\x80\x01\x00", protobuf.int(16, 0))
      assert.equal("\x1d\x00\x00\x80\x3f", protobuf.float(3, 1.0))
      assert.equal("\x21\x00\x00\x00\x00\x00\x00\xf0\x3f", protobuf.double(4, 1.0))
   end)

   it("decode all kinds of fields", function()
      local text = "\x08\x96\x01\x12\x07testing\x1d\x00\x00\x80\x3f\x21\x00\x00\x00\x00\x00\x00\xf0\x3f\x08\x02"
      assert.same({{150, 2}, {"testing"}, {1.0}, {1.0}}, protobuf.fields(text))
      assert.same({[1] = {-1}}, protobuf.fields("\x08" .. ("\xff"):rep(9) .. "\x01"))
      assert.same({}, protobuf.fields "")
   end)

   it("report the position of a damaged field", function()
      local function position(text) return protobuf.each("\x08\x01" .. text, function() end) end
      assert.is_nil(position "")
      for _, text in ipairs {
         "\x12\x07test", "\x08", "\x08\x80", "\x80", "\x1d\0\0\0", "\x21\0\0\0\0\0\0\0", "\x0b", "\x0e\0",
         "\x08" .. ("\xff"):rep(11), "\x12" .. ("\xff"):rep(9) .. "\x01", "\x12" .. ("\xff"):rep(8) .. "\x7f",
      } do
         assert.equal(3, position(text), ("%q"):format(text))
         assert.is_nil(protobuf.fields("\x08\x01" .. text))
      end
   end)
end)
