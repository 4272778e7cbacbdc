-- Takes a noted start back, and notes who gives the last try of the mini-batch back for another node.
-- ARGV: index, name of the start, name of the service
local job, ended, tries = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('GETBIT', ended, ARGV[1]) == 1 then return 1 end
local packed = redis.call('HGET', tries, ARGV[1])
local noted = packed and cmsgpack.unpack(packed) or { {}, {}, false }
if noted[3] == ARGV[2] then noted[3] = false end
local passed_on_by = noted[4] or {}
local is_new = true
for _, service in ipairs(passed_on_by) do is_new = is_new and service ~= ARGV[3] end
if is_new then passed_on_by[#passed_on_by + 1] = ARGV[3] end
noted[4] = passed_on_by
redis.call('HSET', tries, ARGV[1], cmsgpack.pack(noted))
return 1
