-- Notes a failed try. Returns how many tries failed and how many nodes were lost, then the limits of both; nothing
-- but {} when the outcome is known.
-- ARGV: index, name of the try, whose fault (code, node)
local job, ended, tries = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
if redis.call('GETBIT', ended, ARGV[1]) == 1 then return {} end

local packed = redis.call('HGET', tries, ARGV[1])
local noted = packed and cmsgpack.unpack(packed) or { {}, {}, false }
local blamed = noted[ARGV[3] == 'code' and 1 or 2]
local is_new = true
for _, id in ipairs(blamed) do is_new = is_new and id ~= ARGV[2] end
if is_new then
  blamed[#blamed + 1] = ARGV[2]
  -- The start has brought its end: it does not count as a lost node later.
  noted[3] = false
  redis.call('HSET', tries, ARGV[1], cmsgpack.pack(noted))
end
local limits = redis.call('HMGET', job, 'run_max_try', 'max_node_losses')
return { #noted[1], #noted[2], limits[1] or '', limits[2] or '' }
