local json = require "tlua".utils.json

describe("json.decode", function()
   it("reads values", function()
      assert.same({a = {1, 2.5, "x", true, false}, b = {}},
         json.decode ' {"a": [1, 2.5, "x", true, false], "b": {}} ')
      assert.equal(json.null, json.decode "null")
      assert.equal("a", json.decode '"a"')
   end)

   it("distinguishes integers from floats", function()
      assert.equal("integer", math.type(json.decode "12"))
      assert.equal("float", math.type(json.decode "12.0"))
      assert.equal("float", math.type(json.decode "1e2"))
      assert.equal(math.maxinteger, json.decode "9223372036854775807")
      assert.equal(math.mininteger, json.decode "-9223372036854775808")
      assert.equal(2.0 ^ 63, json.decode "9223372036854775808")
      assert.equal(-math.huge, 1 / json.decode "-0")
   end)

   it("distinguishes arrays from objects", function()
      assert.is_true(json.is_array(json.decode "[]"))
      assert.is_false(json.is_array(json.decode "{}"))
   end)

   it("reads escapes", function()
      assert.equal('"\\/\b\f\n\r\t\u{e4}\u{1F600}\127',
         json.decode '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\uDE00\127"')
   end)

   it("refuses text that is not JSON, and gives the position", function()
      for text, message in pairs {
         [""] = "at byte 1: the text ends too early",
         ["[1,]"] = "at byte 4: expected a value",
         ["[1 2]"] = "at byte 4: expected , or ]",
         ['{"a" 1}'] = "at byte 6: expected :",
         ['{"a":1,}'] = "at byte 8: expected a key",
         ["{a:1}"] = "at byte 2: expected a key",
         ['{"a":1'] = "at byte 7: expected , or }",
         ['{"a":1,"a":2}'] = 'the key "a" occurs twice',
         ["01"] = "malformed number", ["1."] = "malformed number", [".5"] = "expected a value",
         ["+1"] = "expected a value", ["1e"] = "malformed number", ["0x10"] = "malformed number",
         ["NaN"] = "expected a value", ["tru"] = "expected a value", ["'a'"] = "expected a value",
         ['"a'] = "a string without end", ['"\n"'] = "a control character",
         ['"\\x"'] = "unknown escape", ['"\\'] = "unknown escape", ['"\\u12"'] = "bad \\u escape",
         ['"\\uD800"'] = "without its second half", ['"\\uDC00"'] = "without its first half",
         ['"\255"'] = "not UTF-8", ["1 2"] = "more text after the value",
         [("["):rep(65) .. ("]"):rep(65)] = "nested too deeply",
      } do
         local value, found = json.decode(text)
         assert.is_nil(value)
         assert.is_truthy(found:find(message, 1, true), text .. ": " .. found)
      end
   end)

   it("raises no error for damaged texts", function()
      local text = '{"a":[1,-2.5e3,"x\\u00e4\\n",true,null],"b":{"c":[]}}'
      for i = 1, #text do
         for _, c in ipairs {'"', "\\", "{", "]", ",", "0", "u", "\0", "\255"} do
            assert.has_no_error(function()
               json.decode(text:sub(1, i - 1) .. c .. text:sub(i + 1))
               json.decode(text:sub(1, i - 1))
            end)
         end
      end
   end)
end)

describe("json.encode", function()
   it("writes texts from which decode restores the value", function()
      local value = {a = {1, 2.5, -0.1, 1e300, "x\n\"\\\0\127ä"}, b = {c = true, d = {}}, e = 2.0}
      local again = json.decode(json.encode(value))
      assert.same(value, again)
      assert.equal("float", math.type(again.e))
   end)

   it("sorts keys, and distinguishes empty arrays from empty objects", function()
      assert.equal('{"a":{},"b":[],"c":null}', json.encode {c = json.null, b = json.as_array {}, a = {}})
   end)

   it("writes sizes of tensors as arrays", function()
      local torch = require "tlua"
      local value = {a = torch.ones(2, 3).shape, b = torch.tensor(1.0).shape, c = {torch.ones(0):size()}}
      assert.equal('{"a":[2,3],"b":[],"c":[[0]]}', json.encode(value))
      assert.equal("[]", json.encode(torch.Size {}))
   end)

   it("refuses values that JSON cannot represent", function()
      for _, value in ipairs {0 / 0, math.huge, print, {[1.5] = 1}, "\255", {a = 1, [true] = 2}} do
         assert.has_error(function() json.encode(value) end)
      end
      local loop = {}
      loop[1] = loop
      assert.has_error(function() json.encode(loop) end)
   end)

   it("leaves out no key of a list", function()
      for expected, value in pairs {
         ['json.encode: expected a list or an object, got the key "x" in a list of 2 elements'] = {1, 2, x = 3},
         ["json.encode: expected a list or an object, got the key 5 in a list of 2 elements"] = {a = {1, 2, [5] = 3}},
         ['json.encode: expected a list or an object, got the key "x" in a list of 0 elements'] =
            json.as_array {x = 1},
         ["json.encode: a list of 3 elements has a nil"] = {1, nil, 3},
      } do
         assert.raises(expected, function() json.encode(value) end)
      end
   end)
end)
